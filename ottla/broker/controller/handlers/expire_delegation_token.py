"""ExpireDelegationToken at the controller. The broker to which the client is connected has checked how it is authenticated."""

from __future__ import annotations

from ottla.broker.apis.authorisation import UNRESTRICTED
from ottla.broker.controller.services import ControllerDeclaration
from ottla.broker.handlers.expire_delegation_token import execute, failed

API = ControllerDeclaration(key=40, handle=execute, failed=failed, authorisation=UNRESTRICTED)
