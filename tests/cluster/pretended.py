"""A cloud whose machines are processes of this one, for Ray's autoscaler: Ray's own, which alone lacks its settings."""

from ray.autoscaler._private.fake_multi_node.node_provider import FakeMultiNodeProvider


class PretendedCloud(FakeMultiNodeProvider):
    """What `provider: {type: external, module: ...}` names."""
