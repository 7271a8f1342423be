"""The model registry: `models.yaml`, and the settings of engines in it."""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.serving.registry.models import Dialect as Dialect
    from tutti.tasks.serving.registry.models import Model as Model
    from tutti.tasks.serving.registry.models import checkpoint_id as checkpoint_id
    from tutti.tasks.serving.registry.models import pick_model as pick_model
    from tutti.tasks.serving.registry.models import pick_models as pick_models
    from tutti.tasks.serving.registry.models import read_registry as read_registry
    from tutti.tasks.serving.registry.models import weights_folder as weights_folder
    from tutti.tasks.serving.registry.models import weights_here as weights_here

if not TYPE_CHECKING:  # with it, a type checker would accept any name of this package
    __getattr__ = lazy(__name__, __file__)
