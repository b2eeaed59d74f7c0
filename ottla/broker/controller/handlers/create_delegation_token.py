"""CreateDelegationToken at the controller. The broker to which the client is connected has checked how it is authenticated."""

from __future__ import annotations

from ottla.broker.apis.authorisation import authorisations
from ottla.broker.controller.services import ControllerDeclaration
from ottla.broker.handlers.create_delegation_token import execute, failed

API = ControllerDeclaration(
    key=38, handle=execute, failed=failed, authorisation=authorisations("CREATE_TOKENS USER"), checks_itself=True
)
