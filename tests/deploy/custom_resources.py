"""Schemas of the resources that are not Kubernetes' own: the fields that the chart may use, as the
documentation of KEDA, the Prometheus operator and the Gateway API names them.
"""

from __future__ import annotations

from typing import Any


def _fields(*required: str, **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
        "required": list(required),
    }


def _resource(api: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    metadata = _fields("name", name=_NAME, labels=_MAP, annotations=_MAP)
    return _fields(
        *("apiVersion", "kind", "metadata", "spec"),
        apiVersion={"const": api},
        kind={"const": kind},
        metadata=metadata,
        spec=spec,
    )


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items, "minItems": 1}


_TEXT = {"type": "string", "minLength": 1}
_NAME = {"type": "string", "pattern": r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", "maxLength": 63}
_MAP = {"type": "object", "additionalProperties": {"type": "string"}}
_COUNT = {"type": "integer", "minimum": 0}
_NUMBER = {"type": "string", "pattern": r"^\d+(\.\d+)?$"}
_SPAN = {"type": "string", "pattern": r"^(\d+(ms|s|m|h))+$"}
_KEY = _fields("name", "key", name=_NAME, key=_TEXT)
_SELECTOR = _fields("matchLabels", matchLabels=_MAP)

_POLICY = _fields(
    *("type", "value", "periodSeconds"),
    type={"enum": ["Pods", "Percent"]},
    value={"type": "integer", "minimum": 1},
    periodSeconds={"type": "integer", "minimum": 1, "maximum": 1800},
)
_RULES = _fields(
    stabilizationWindowSeconds={"type": "integer", "minimum": 0, "maximum": 3600},
    selectPolicy={"enum": ["Max", "Min", "Disabled"]},
    policies=_list(_POLICY),
)
_POSTGRESQL = _fields(
    *("query", "targetQueryValue"),
    query=_TEXT,
    targetQueryValue=_NUMBER,
    activationTargetQueryValue=_NUMBER,
    host=_TEXT,
    port=_NUMBER,
    userName=_TEXT,
    dbName=_TEXT,
    sslmode=_TEXT,
)
_PROMETHEUS = _fields(
    *("serverAddress", "query", "threshold"),
    serverAddress=_TEXT,
    query=_TEXT,
    threshold=_NUMBER,
    activationThreshold=_NUMBER,
    namespace=_TEXT,
    customHeaders=_TEXT,
    queryParameters=_TEXT,
    authModes=_TEXT,
    ignoreNullValues={"enum": ["true", "false"]},
    unsafeSsl={"enum": ["true", "false"]},
)


def _trigger(kind: str, metadata: dict[str, Any], *required: str) -> dict[str, Any]:
    return _fields(
        *("type", "metadata", *required),
        type={"const": kind},
        metadata=metadata,
        authenticationRef=_fields(
            "name",
            name=_NAME,
            kind={"enum": ["TriggerAuthentication", "ClusterTriggerAuthentication"]},
        ),
    )


_KEDA = "keda.sh/v1alpha1"
_MONITORING = "monitoring.coreos.com/v1"
_GATEWAY = "gateway.networking.k8s.io/v1"

SCHEMAS: dict[tuple[str, str], dict[str, Any]] = {
    (_KEDA, "ScaledObject"): _resource(
        _KEDA,
        "ScaledObject",
        _fields(
            *("scaleTargetRef", "minReplicaCount", "maxReplicaCount", "triggers"),
            scaleTargetRef=_fields("name", name=_NAME),
            minReplicaCount=_COUNT,
            maxReplicaCount={"type": "integer", "minimum": 1},
            pollingInterval={"type": "integer", "minimum": 1},
            cooldownPeriod=_COUNT,
            fallback=_fields(
                *("failureThreshold", "replicas"),
                failureThreshold={"type": "integer", "minimum": 1},
                replicas=_COUNT,
                behavior=_TEXT,
            ),
            advanced=_fields(
                "horizontalPodAutoscalerConfig",
                horizontalPodAutoscalerConfig=_fields(
                    "behavior", behavior=_fields(scaleUp=_RULES, scaleDown=_RULES)
                ),
            ),
            triggers=_list(
                {
                    "oneOf": [
                        _trigger("postgresql", _POSTGRESQL, "authenticationRef"),
                        _trigger("prometheus", _PROMETHEUS),
                    ]
                }
            ),
        ),
    ),
    (_KEDA, "TriggerAuthentication"): _resource(
        _KEDA,
        "TriggerAuthentication",
        _fields(
            "secretTargetRef",
            secretTargetRef=_list(
                _fields(
                    *("parameter", "name", "key"),
                    parameter={"enum": ["connection", "password"]},
                    name=_NAME,
                    key=_TEXT,
                )
            ),
        ),
    ),
    (_MONITORING, "ServiceMonitor"): _resource(
        _MONITORING,
        "ServiceMonitor",
        _fields(
            *("selector", "endpoints"),
            selector=_SELECTOR,
            endpoints=_list(
                _fields(
                    *("port", "path", "interval"),
                    port=_TEXT,
                    path={"type": "string", "pattern": "^/"},
                    interval=_SPAN,
                    authorization=_fields(
                        *("type", "credentials"), type={"const": "Bearer"}, credentials=_KEY
                    ),
                )
            ),
        ),
    ),
    (_MONITORING, "PodMonitor"): _resource(
        _MONITORING,
        "PodMonitor",
        _fields(
            *("selector", "podMetricsEndpoints"),
            selector=_SELECTOR,
            podMetricsEndpoints=_list(
                _fields(
                    *("port", "path", "interval"),
                    port=_TEXT,
                    path={"type": "string", "pattern": "^/"},
                    interval=_SPAN,
                )
            ),
        ),
    ),
    (_GATEWAY, "HTTPRoute"): _resource(
        _GATEWAY,
        "HTTPRoute",
        _fields(
            *("parentRefs", "rules"),
            parentRefs=_list(
                _fields(
                    "name",
                    group={"type": "string"},
                    kind=_TEXT,
                    namespace=_NAME,
                    name=_NAME,
                    sectionName=_TEXT,
                    port={"type": "integer"},
                )
            ),
            hostnames=_list(_TEXT),
            rules=_list(
                _fields(
                    *("matches", "backendRefs"),
                    matches=_list(
                        _fields(
                            "path",
                            path=_fields(
                                *("type", "value"),
                                type={"enum": ["Exact", "PathPrefix", "RegularExpression"]},
                                value={"type": "string", "pattern": "^/"},
                            ),
                        )
                    ),
                    backendRefs=_list(
                        _fields(
                            *("name", "port"),
                            name=_NAME,
                            port={"type": "integer", "minimum": 1, "maximum": 65535},
                        )
                    ),
                )
            ),
        ),
    ),
}
"""By API version and kind; a field that is not named is refused."""
