"""What every stage stands on: settings, folders of the project, GPUs, runs and progress."""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.platform.config import PASSWORD as PASSWORD
    from tutti.tasks.platform.config import Document as Document
    from tutti.tasks.platform.config import Strict as Strict
    from tutti.tasks.platform.config import explain as explain
    from tutti.tasks.platform.config import read_document as read_document
    from tutti.tasks.platform.identity import NOT_IN_ID as NOT_IN_ID
    from tutti.tasks.platform.identity import NotInId as NotInId
    from tutti.tasks.platform.identity import file_hash as file_hash
    from tutti.tasks.platform.identity import files_named as files_named
    from tutti.tasks.platform.identity import identity_of as identity_of
    from tutti.tasks.platform.identity import plain_numbers as plain_numbers
    from tutti.tasks.platform.project import DEPLOYMENTS as DEPLOYMENTS
    from tutti.tasks.platform.project import IMPORTS as IMPORTS
    from tutti.tasks.platform.project import IS_CHECKOUT as IS_CHECKOUT
    from tutti.tasks.platform.project import IS_SOURCE as IS_SOURCE
    from tutti.tasks.platform.project import MODELS as MODELS
    from tutti.tasks.platform.project import MODELS_ENVIRONMENT as MODELS_ENVIRONMENT
    from tutti.tasks.platform.project import PACKAGE as PACKAGE
    from tutti.tasks.platform.project import POCKET as POCKET
    from tutti.tasks.platform.project import PROJECT as PROJECT
    from tutti.tasks.platform.project import SUITES as SUITES
    from tutti.tasks.platform.project import TRAINED_POCKET as TRAINED_POCKET
    from tutti.tasks.platform.project import default_registry as default_registry
    from tutti.tasks.platform.project import models_python_path as models_python_path
    from tutti.tasks.platform.project import package_version as package_version

if not TYPE_CHECKING:  # with it, a type checker would accept any name of this package
    __getattr__ = lazy(__name__, __file__)
