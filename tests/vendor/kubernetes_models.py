"""The official Kubernetes client's models judge a reply: they know each member, and none that they need is missing."""
import inspect

from kubernetes import client


def model_problems(doc, model, path=''):
    """Returns the members of a JSON document that the model does not know, or needs and does not find."""
    found = []
    if model.startswith('list['):
        for i, x in enumerate(doc or []):
            found += model_problems(x, model[5:-1], '%s[%d]' % (path, i))
        return found
    if model.startswith('dict('):
        for k, x in (doc or {}).items():
            found += model_problems(x, model[5:-1].split(', ', 1)[1], '%s[%s]' % (path, k))
        return found
    cls = getattr(client, model, None)
    if cls is None:
        simple = {'str': str, 'int': int, 'bool': bool, 'float': (int, float), 'datetime': str}.get(model)
        if doc is not None and simple and (not isinstance(doc, simple) or (simple is int and isinstance(doc, bool))):
            found.append('%s: %r is no %s' % (path, doc, model))
        return found
    if not isinstance(doc, dict):
        return ['%s: %r is no %s' % (path, doc, model)]
    names = {key: attr for attr, key in cls.attribute_map.items()}
    found += ['%s.%s: not in %s' % (path, k, model) for k in doc if k not in names]
    for key, attr in names.items():
        needed = 'must not be `None`' in inspect.getsource(getattr(cls, attr).fset)
        if doc.get(key) is None:
            if needed:
                found.append('%s.%s: required in %s' % (path, key, model))
        else:
            found += model_problems(doc[key], cls.openapi_types[attr], '%s.%s' % (path, key))
    return found


MODELS = {'Pod': 'V1Pod', 'PodList': 'V1PodList', 'Node': 'V1Node', 'NodeList': 'V1NodeList', 'Event': 'CoreV1Event',
          'EventList': 'CoreV1EventList', 'Namespace': 'V1Namespace', 'NamespaceList': 'V1NamespaceList', 'Status': 'V1Status',
          'ServiceAccount': 'V1ServiceAccount', 'ServiceAccountList': 'V1ServiceAccountList', 'ResourceQuota': 'V1ResourceQuota',
          'ResourceQuotaList': 'V1ResourceQuotaList', 'TokenRequest': 'AuthenticationV1TokenRequest',
          'TokenReview': 'V1TokenReview', 'SelfSubjectAccessReview': 'V1SelfSubjectAccessReview',
          'SelfSubjectReview': 'V1SelfSubjectReview',
          'APIVersions': 'V1APIVersions', 'APIGroupList': 'V1APIGroupList', 'APIGroup': 'V1APIGroup',
          'APIResourceList': 'V1APIResourceList'}
SEEN = set()


def check(doc):
    """Replies of a custom kind have no model; their metadata has."""
    kind = doc.get('kind')
    SEEN.add(kind)
    if kind in MODELS:
        return model_problems(doc, MODELS[kind], kind)
    if kind in ('NodePool', 'NodePoolList'):
        return [p for x in doc.get('items', [doc]) for p in model_problems(x['metadata'], 'V1ObjectMeta', kind)]
    return [] if kind is None and 'gitVersion' in doc else ['unknown kind %s' % kind]
