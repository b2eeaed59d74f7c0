"""CreateDelegationToken at the controller. The broker that forwards the request has checked how the client is authenticated."""

from __future__ import annotations

from ottla.broker.apis.authorisation import authorisations
from ottla.broker.controller.services import ControllerDeclaration
from ottla.broker.handlers.create_delegation_token import execute, failed

API = ControllerDeclaration(
    key=38, handle=execute, failed=failed, authorisation=authorisations("CREATE_TOKENS USER", by_handler=True), has_secrets=True
)
