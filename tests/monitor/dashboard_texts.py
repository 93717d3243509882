"""What the people of the dashboard's made-up data say: a broadband firm's support desk."""

from __future__ import annotations

USERS = (
    *(
        "maria.lopez",
        "alice",
        "j.okafor",
        "priya.raman",
        "tom.becker",
        "yuki.tanaka",
        "omar.haddad",
    ),
    *(
        "omar.haddad",
        "chen.wei",
        "sofia.rossi",
        "liam.murphy",
        "ana.souza",
        "noah.fischer",
        "emma.dubois",
    ),
    *("ravi.iyer", "grace.kim", "lucas.novak", "fatima.zahra", "oscar.lind", "mia.jansen"),
    *("hugo.martin", "leila.nasser", "peter.byrne", "ingrid.berg", "diego.ruiz", "nina.petrova"),
    *("sam.taylor", "aisha.bello", "karl.weber", "zoe.clarke", "ivan.horvat", "lena.braun"),
    *("david.cohen", "elif.kaya", "marco.conti", "julia.nowak", "ben.adams", "kofi.mensah"),
    *("batch-summaries", "eval-nightly", "9f1c2b7e-5d34-4c1a-9a77-0e2f6b8d4c15"),
)

TURNS = (
    (
        "My router shows a red light since this morning and nothing works.",
        "A red light means that the router cannot reach our network. Please pull the power plug, "
        "wait 30 seconds and plug it in again. If it is still red after five minutes, I will run "
        "a line test for you.",
    ),
    (
        "Still red. What now?",
        "Thank you for trying. I have started a line test: it sees a signal loss of 14 dB between "
        "your socket and the street cabinet, which points to the cable. A technician can come on "
        "Thursday between 8 and 12. Shall I book that?",
    ),
    (
        "I was charged twice in November. Invoice 48211.",
        "You are right, and I am sorry. Invoice 48211 was paid by direct debit on 3 November and "
        "again by card on 5 November. I have asked for the second payment of €39.90 to be "
        "returned; it takes three to five working days.",
    ),
    (
        "How do I move my contract to a new address?",
        "You can move it online up to six weeks ahead:\n\n1. Open My account, then Contract, then "
        "Moving house.\n2. Give the new address and the date.\n3. Choose whether the router moves "
        "with you.\n\nThe monthly price stays the same if the same speed is available there.",
    ),
    (
        "Is 1 Gbit/s available at Hauptstraße 12, 50667 Köln?",
        "Yes. At Hauptstraße 12 in 50667 Köln we offer up to 1,000 Mbit/s down and 500 Mbit/s up "
        "over fibre. The house is already connected, so it can be switched on within five days.",
    ),
    (
        "Can I cancel before the 24 months are over?",
        "Before the end of the term you can cancel for good cause only, for instance when we "
        "cannot supply your new address. Otherwise it ends on 14 March with one month's notice.",
    ),
    (
        "Which channels are in the Family package?",
        "The Family package has 84 channels, 41 of them in HD, and the children's library. Sports "
        "channels are not part of it; they cost €9.99 a month more.",
    ),
    (
        "我的网络昨天晚上开始很慢, 只有 2 Mbit/s。",
        "很抱歉给您带来不便。我查看了您的线路: 昨晚 19:40 起信号变弱。"
        "请先重启路由器, 如果十分钟后仍然很慢, 我会为您安排技术人员。",
    ),
    (
        "لماذا ارتفعت فاتورتي هذا الشهر؟",
        "ارتفعت فاتورتك لأن العرض الترويجي انتهى في 31 أكتوبر. "
        "يمكنني تقديم خصم قدره 5 يورو شهريا لمدة سنة.",
    ),
    (
        "Thanks, that worked 🎉👩‍👩‍👧 you saved our movie night!",
        "Wonderful! 🍿 Enjoy the film. I have closed the ticket; it opens again "
        "if you answer here.",
    ),
    (
        "Please summarise this ticket for the technician.",
        "**Problem**: no connection since 07:10, red light.\n**Done**: restart, line test (14 dB "
        "loss).\n**Next**: check the cable between socket and cabinet, Thursday 8 to 12.",
    ),
    (
        "What does error E-4012 mean?",
        "E-4012 says that the router's certificate has expired. It renews itself after a restart "
        "while the cable is connected. No data are lost.",
    ),
    (
        "Why is my upload so much slower than the download?",
        "Your tariff is asymmetric: 250 Mbit/s down and 40 Mbit/s up. A test at 09:15 measured 243 "
        "and 38.6, so both are within what you ordered. Fibre 500 has 200 Mbit/s up.",
    ),
    (
        "Could you write that in an e-mail to my landlord?",
        "Of course:\n\nDear Mr Schulz,\n\nour provider would like to lay a fibre line to the flat "
        "on the second floor. The work takes about two hours and costs you nothing. May they "
        "contact you about a date?\n\nKind regards",
    ),
)

CHUNKS = (
    (
        "kb/router-lights.md",
        "Red light: no connection to the network. Restart the router first. If it stays red after "
        "five minutes, run a line test (LT-2).",
    ),
    (
        "kb/line-test.md",
        "A loss above 10 dB between socket and cabinet points to the cable; book a technician. "
        "Below it, replace the router.",
    ),
    (
        "kb/refunds.md",
        "A payment that was taken twice is returned to where it came from within three to five "
        "working days. Refunds above €200 need approval.",
    ),
    (
        "kb/moving-house.md",
        "Contracts move with the customer, up to six weeks ahead, under My account > Contract > "
        "Moving house. The price stays the same for the same speed.",
    ),
    (
        "kb/terms-2026.pdf#p4",
        "§ 7 Notice. The minimum term is 24 months. Notice is one month to the end of the term. "
        "The right to cancel for good cause remains.",
    ),
    (
        "kb/tariffs.csv",
        "Fibre 250: 250/40 Mbit/s, €34.90. Fibre 500: 500/200, €44.90. "
        "Fibre 1000: 1000/500, €59.90.",
    ),
)

PROMPT_AGES = (41, 19, 6)
"""How many days ago the first, second, third version of each prompt was saved."""
PROMPTS = {
    "support-agent": (
        "You are a helpful support agent of Nordlicht Broadband.\n"
        "Answer in the customer's language.\n"
        "If you do not know something, say so.",
        "You are an expert, friendly support agent of Nordlicht Broadband.\n"
        "Answer in the customer's language, in at most six sentences.\n"
        "Use the knowledge base below; never guess prices.\n"
        "If you do not know something, say so and offer a colleague.",
        "You are an expert, concise support agent of Nordlicht Broadband.\n"
        "Answer in the customer's language, in at most four sentences.\n"
        "Use the knowledge base below; never guess prices or dates.\n"
        "Run a line test before you book a technician.\n"
        "If you do not know something, say so and offer a colleague.",
    ),
    "ticket-summary": (
        "Summarise the ticket for a technician: problem, what was done, what is next.",
        "Summarise the ticket for a technician in three bold lines: Problem, Done, Next.",
    ),
    "tariff-advisor": ("Recommend one tariff and say why. Prices come from the table alone.",),
}

FAILURES = (
    ("RateLimitError", "429: requests per minute exceeded, try again in 18 s", 0.40),
    ("ProviderTimeoutError", "no answer within 60 s", 0.25),
    ("ProviderUnavailableError", "529: the service is overloaded", 0.20),
    ("ContextLengthError", "the prompt has 131,402 tokens and the model takes 128,000", 0.10),
    ("AuthenticationError", "401: the key was not accepted", 0.05),
)

TOOLS = (
    (
        "run_line_test",
        {"line_id": "DE-50667-0012-B", "kind": "LT-2"},
        '{"loss_db": 14.2, "noise_margin_db": 6.1, "verdict": "cable"}',
        "the test head in 50667 did not answer within 20 s",
        0.16,
        6200.0,
    ),
    (
        "find_invoice",
        {"invoice": 48211, "customer": "C-2209"},
        '{"invoice": 48211, "amount": 39.9, "payments": ["2026-11-03", "2026-11-05"]}',
        "no invoice with this number",
        0.03,
        140.0,
    ),
    (
        "book_technician",
        {"line_id": "DE-50667-0012-B", "window": "Thu 08:00-12:00"},
        '{"booking": "T-70213", "confirmed": true}',
        "ConflictError: the window is taken; free are Fri 08:00-12:00, Fri 13:00-17:00",
        0.22,
        480.0,
    ),
    (
        "search_knowledge_base",
        {"query": "red light after restart", "top_k": 3},
        '[{"doc": "kb/router-lights.md", "score": 0.83}, '
        '{"doc": "kb/line-test.md", "score": 0.71}]',
        "the index is being rebuilt",
        0.01,
        35.0,
    ),
    (
        "issue_refund",
        {"invoice": 48211, "amount_eur": 39.9, "reference": 9007199254740993},
        '{"refund": "R-3381", "state": "pending"}',
        "403: refunds above €200 need approval",
        0.08,
        310.0,
    ),
)

COMMENTS = (
    "Quick and right.",
    "Did not understand my question",
    "",
    "Great, thank you! 🙏",
    "old price",
)

HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(2)</script>",
    "[x](javascript:alert(3))",
    '"><svg onload=alert(4)>',
    "{{ 7*7 }}{% raw %}${alert(5)}",
    "'; DROP TABLE conversations; --",
    "\u202egnp.exe a/b/../%2e%2e?x=1&y=2#z",
)
