BEGIN TRANSACTION;
CREATE TABLE conversations (
	id INTEGER NOT NULL,
	user_id VARCHAR(191) NOT NULL,
	session_id VARCHAR(191) NOT NULL,
	role VARCHAR(32) NOT NULL,
	status VARCHAR(32) NOT NULL,
	created_at BIGINT NOT NULL,
	history_count INTEGER,
	content TEXT NOT NULL,
	rag_context TEXT,
	system_prompt TEXT,
	PRIMARY KEY (id)
);
INSERT INTO "conversations" VALUES(1,'alice','s1','user','ok',1796040000000000,0,'q0','[{"text": "é", "score": 0.5, "doc_id": "d", "metadata": {}}]','be kind');
INSERT INTO "conversations" VALUES(2,'alice','s1','assistant','ok',1796040000000000,NULL,'re: q0',NULL,NULL);
INSERT INTO "conversations" VALUES(3,'alice','s1','user','ok',1796040060000000,0,'q1','[{"text": "é", "score": 0.5, "doc_id": "d", "metadata": {}}]','be kind');
INSERT INTO "conversations" VALUES(4,'alice','s1','assistant','ok',1796040060000000,NULL,'re: q1',NULL,NULL);
INSERT INTO "conversations" VALUES(5,'bob','s1','user','ok',1796040120000000,0,'hallo ünï 👍','[{"text": "é", "score": 0.5, "doc_id": "d", "metadata": {}}]','be kind');
INSERT INTO "conversations" VALUES(6,'bob','s1','assistant','ok',1796040120000000,NULL,'re: hallo ünï 👍',NULL,NULL);
CREATE TABLE schema_info (
	id INTEGER NOT NULL,
	version INTEGER NOT NULL,
	PRIMARY KEY (id)
);
INSERT INTO "schema_info" VALUES(1,4);
CREATE TABLE session_totals (
	user_id VARCHAR(191) NOT NULL,
	session_id VARCHAR(191) NOT NULL,
	row_count BIGINT NOT NULL,
	calls BIGINT NOT NULL,
	errors BIGINT NOT NULL,
	turns BIGINT NOT NULL,
	total_tokens BIGINT NOT NULL,
	cost BIGINT NOT NULL,
	first_at BIGINT NOT NULL,
	last_at BIGINT NOT NULL,
	PRIMARY KEY (user_id, session_id)
)
 WITHOUT ROWID

;
INSERT INTO "session_totals" VALUES('alice','s1',6,2,0,2,30,5000000000,1796040000000000,1796040060000000);
INSERT INTO "session_totals" VALUES('bob','s1',4,2,1,1,15,2500000000,1796040120000000,1796040120000000);
CREATE TABLE system_prompts (
	id INTEGER NOT NULL,
	name VARCHAR(191) NOT NULL,
	version VARCHAR(191) NOT NULL,
	is_active BOOLEAN NOT NULL,
	created_at BIGINT NOT NULL,
	updated_at BIGINT NOT NULL,
	text TEXT NOT NULL,
	PRIMARY KEY (id),
	CONSTRAINT uq_system_prompts UNIQUE (name, version)
);
INSERT INTO "system_prompts" VALUES(1,'support','v1',1,1796040120000000,1796040120000000,'one');
INSERT INTO "system_prompts" VALUES(2,'support','v2',0,1796040120000000,1796040120000000,'two');
INSERT INTO "system_prompts" VALUES(3,'sales','v1',0,1796040120000000,1796040120000000,'text of sales');
CREATE TABLE token_records (
	id INTEGER NOT NULL,
	user_id VARCHAR(191) NOT NULL,
	session_id VARCHAR(191) NOT NULL,
	created_at BIGINT NOT NULL,
	model VARCHAR(191) NOT NULL,
	provider VARCHAR(191) NOT NULL,
	kind VARCHAR(32) NOT NULL,
	status VARCHAR(32) NOT NULL,
	input_tokens BIGINT NOT NULL,
	output_tokens BIGINT NOT NULL,
	cache_read_tokens BIGINT NOT NULL,
	cache_write_tokens BIGINT NOT NULL,
	reasoning_tokens BIGINT NOT NULL,
	cost BIGINT NOT NULL,
	priced BOOLEAN NOT NULL,
	cached BOOLEAN NOT NULL,
	duration_ms DOUBLE NOT NULL,
	ttft_ms DOUBLE,
	error_type VARCHAR(191),
	request_id VARCHAR(191),
	prompt_name VARCHAR(191),
	prompt_version VARCHAR(191),
	error_message TEXT,
	partial TEXT,
	PRIMARY KEY (id)
);
INSERT INTO "token_records" VALUES(1,'alice','s1',1796040000000000,'gpt-4o-mini','openai','chat','ok',10,5,0,0,0,2500000000,1,0,100.0,NULL,NULL,'req_1','support','v1',NULL,NULL);
INSERT INTO "token_records" VALUES(2,'alice','s1',1796040060000000,'gpt-4o-mini','openai','chat','ok',10,5,0,0,0,2500000000,1,0,100.0,NULL,NULL,'req_1','support','v1',NULL,NULL);
INSERT INTO "token_records" VALUES(3,'bob','s1',1796040120000000,'gpt-4o-mini','openai','chat','ok',10,5,0,0,0,2500000000,1,0,100.0,NULL,NULL,'req_1','support','v1',NULL,NULL);
INSERT INTO "token_records" VALUES(4,'bob','s1',1796040120000000,'gpt-4o-mini','openai','chat','error',0,0,0,0,0,0,1,0,0.0,NULL,'ServerError',NULL,NULL,NULL,'it''s broken','so f');
CREATE TABLE tool_calls (
	id INTEGER NOT NULL,
	user_id VARCHAR(191) NOT NULL,
	session_id VARCHAR(191) NOT NULL,
	turn_num INTEGER NOT NULL,
	tool_name VARCHAR(191) NOT NULL,
	call_id VARCHAR(191) NOT NULL,
	status VARCHAR(32) NOT NULL,
	created_at BIGINT NOT NULL,
	duration_ms DOUBLE,
	arguments TEXT NOT NULL,
	result TEXT,
	error TEXT,
	PRIMARY KEY (id)
);
INSERT INTO "tool_calls" VALUES(1,'alice','s1',1,'add','c1','ok',1796040120000000,3.0,'{"a": 1}','2',NULL);
CREATE TABLE tool_totals (
	user_id VARCHAR(191) NOT NULL,
	tool_name VARCHAR(191) NOT NULL,
	calls BIGINT NOT NULL,
	errors BIGINT NOT NULL,
	timed BIGINT NOT NULL,
	duration_ms DOUBLE NOT NULL,
	PRIMARY KEY (user_id, tool_name)
)
 WITHOUT ROWID

;
INSERT INTO "tool_totals" VALUES('alice','add',1,0,1,3.0);
CREATE TABLE usage_totals (
	bucket BIGINT NOT NULL,
	lane SMALLINT NOT NULL,
	provider VARCHAR(191) NOT NULL,
	model VARCHAR(191) NOT NULL,
	kind VARCHAR(32) NOT NULL,
	calls BIGINT NOT NULL,
	errors BIGINT NOT NULL,
	unpriced BIGINT NOT NULL,
	input_tokens BIGINT NOT NULL,
	output_tokens BIGINT NOT NULL,
	cost BIGINT NOT NULL,
	duration_ms DOUBLE NOT NULL,
	PRIMARY KEY (bucket, lane, provider, model, kind)
)
 WITHOUT ROWID

;
INSERT INTO "usage_totals" VALUES(-1,0,'openai','gpt-4o-mini','chat',4,1,0,30,15,7500000000,300.0);
INSERT INTO "usage_totals" VALUES(1995600,0,'openai','gpt-4o-mini','chat',4,1,0,30,15,7500000000,300.0);
CREATE TABLE user_settings (
	id INTEGER NOT NULL,
	user_id VARCHAR(191) NOT NULL,
	prompt_name VARCHAR(191) NOT NULL,
	prompt_version VARCHAR(191) NOT NULL,
	updated_at BIGINT NOT NULL,
	PRIMARY KEY (id),
	CONSTRAINT uq_user_settings UNIQUE (user_id, prompt_name)
);
INSERT INTO "user_settings" VALUES(1,'alice','support','v2',1796040120000000);
CREATE INDEX ix_conversations_time ON conversations (created_at);
CREATE INDEX ix_conversations_session ON conversations (user_id, session_id, id, role);
CREATE INDEX ix_token_records_session ON token_records (user_id, session_id, id);
CREATE INDEX ix_token_records_time ON token_records (created_at);
CREATE INDEX ix_tool_calls_session ON tool_calls (user_id, session_id, id);
CREATE INDEX ix_tool_calls_time ON tool_calls (created_at);
CREATE INDEX ix_session_totals_time ON session_totals (last_at, user_id);
COMMIT;
