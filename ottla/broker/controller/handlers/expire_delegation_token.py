"""ExpireDelegationToken at the controller. The broker that forwards the request has checked how the client is authenticated."""

from __future__ import annotations

from ottla.broker.apis.authorisation import UNRESTRICTED
from ottla.broker.controller.services import ControllerDeclaration
from ottla.broker.handlers.expire_delegation_token import execute, failed

API = ControllerDeclaration(key=40, handle=execute, failed=failed, authorisation=UNRESTRICTED, has_secrets=True)
