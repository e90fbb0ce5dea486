#!/usr/bin/env python3
"""Makes data/coreweave_*.csv out of the GPU catalog, and data/kubernetes_schema.json out of the official Kubernetes
client for Python.

Run once by hand when the sources change: gen_coreweave.py catalog CATALOG_DIR OUT_DIR, and (with the package
kubernetes installed) gen_coreweave.py schema OUT_DIR. The build and the tests use only the committed output.
"""
import csv
import inspect
import json
import os
import re
import sys

# Memory of a node in KiB and units of rdma/ib, from the cluster autoscaler's table
# (kubernetes/autoscaler cluster-autoscaler/cloudprovider/coreweave/coreweave_instance_types.go).
NODE = {
    'gd-8xh100ib-i128': (2112109804, 64), 'gd-8xh200ib-i128': (2112109800, 64), 'b200-8x': (2112277172, 64),
    'b300-8x': (4225760944, 64), 'gd-8xa100-i128': (2112249840, 0), 'gd-8xl40-i128': (1055335508, 0),
    'gd-8xl40s-i128': (1055337468, 0), 'rtxp6000-8x': (1055335468, 0), 'gd-1xgh200': (600218240, 0),
}
# Label gpu.nvidia.com/model where a public source shows it.
MODEL = {'H100-80GB-SXM': 'H100_NVLINK_80GB', 'GH200-96GB': 'GH200_480GB'}
CLASS = {'RTXPRO6000-96GB': 'RTX_PRO_6000'}
ROOTS = ('V1Pod', 'V1Node', 'V1Namespace', 'V1ServiceAccount', 'AuthenticationV1TokenRequest', 'V1TokenReview',
         'V1SelfSubjectAccessReview', 'V1SelfSubjectReview', 'CoreV1Event', 'V1ResourceQuota', 'V1DeleteOptions',
         'V1Eviction')
QUANTITIES = {'limits', 'requests', 'capacity', 'allocatable', 'hard', 'used', 'overhead', 'allocatedResources'}
# The custom resource, after docs.coreweave.com/products/cks/reference/node-pool. Its status is the controller's.
NODE_POOL = {
    'NodePool': {'apiVersion': 'str', 'kind': 'str', 'metadata': 'V1ObjectMeta', 'spec': 'NodePoolSpec!', 'status': 'any'},
    'NodePoolSpec': {
        'computeClass': 'str', 'instanceType': 'str!', 'targetNodes': 'int', 'targetRacks': 'int', 'minNodes': 'int',
        'maxNodes': 'int', 'autoscaling': 'bool', 'nodeLabels': '{}str', 'nodeAnnotations': '{}str',
        'nodeTaints': '[]V1Taint', 'gpu': 'NodePoolGpu', 'image': 'NodePoolImage', 'lifecycle': 'NodePoolLifecycle',
        'nodeConfigurationUpdateStrategy': 'NodePoolUpdateStrategy'},
    'NodePoolGpu': {'version': 'str'},
    'NodePoolImage': {'kernel': 'str', 'name': 'str', 'releaseTrain': 'str'},
    'NodePoolLifecycle': {'scaleDownStrategy': 'str', 'disableUnhealthyNodeEviction': 'bool'},
    'NodePoolUpdateStrategy': {'type': 'str'},
}


def catalog(source, out):
    with open(os.path.join(source, 'instance_types.csv')) as f:
        types = [r for r in csv.DictReader(f) if r['provider'] == 'coreweave']
    with open(os.path.join(source, 'prices.csv')) as f:
        prices = [r for r in csv.DictReader(f) if r['provider'] == 'coreweave']
    with open(os.path.join(out, 'coreweave_types.csv'), 'w', newline='') as f:
        w = csv.writer(f, lineterminator='\n')
        w.writerow(['instance_type', 'gpu', 'class', 'model', 'gpus', 'gpu_mem_gib', 'vcpus', 'mem_ki', 'rdma', 'arch',
                    'rack', 'superchip', 'network'])
        for r in types:
            rack = 'rack' in r['interconnect']
            chip = rack or 'GH200' in r['gpu_name']
            mem, rdma = NODE.get(r['instance_type'], (int(r['mem_gib']) * 1024 * 1024, 0))
            w.writerow([r['instance_type'], r['gpu_name'], CLASS.get(r['gpu_name'], r['gpu_name'].split('-')[0]),
                        MODEL.get(r['gpu_name'], ''), r['gpu_count'], r['gpu_mem_gib'], r['vcpus'], mem, rdma,
                        'arm64' if chip else 'amd64', 'true' if rack else 'false', 'true' if chip else 'false',
                        r['interconnect']])
    with open(os.path.join(out, 'coreweave_pools.csv'), 'w', newline='') as f:
        w = csv.writer(f, lineterminator='\n')
        w.writerow(['region', 'zone', 'instance_type', 'on_demand', 'spot', 'as_of'])
        for r in prices:
            w.writerow([r['region'], r['zone'], r['instance_type'], r['on_demand_usd_hour'], r['spot_usd_hour'], r['as_of']])


def type_of(text, key):
    """'dict(str, list[V1Pod])' -> '{}[]V1Pod'."""
    m = re.fullmatch(r'dict\(str, (.*)\)', text)
    if m:
        return '{}' + ('quantity' if key in QUANTITIES else type_of(m.group(1), key))
    m = re.fullmatch(r'list\[(.*)\]', text)
    if m:
        return '[]' + type_of(m.group(1), key)
    if key == 'sizeLimit' or key == 'divisor':
        return 'quantity'
    return {'object': 'any', 'datetime': 'time', 'str': 'str', 'int': 'int', 'bool': 'bool', 'float': 'float'}.get(text, text)


def schema(out):
    import kubernetes
    from kubernetes import client
    done, todo = dict(NODE_POOL), list(ROOTS)
    while todo:
        name = todo.pop()
        if name in done:
            continue
        model = getattr(client, name)
        fields = done[name] = {}
        for attr, text in model.openapi_types.items():
            key = model.attribute_map[attr]
            kind = type_of(text, key)
            needed = 'must not be `None`' in inspect.getsource(getattr(model, attr).fset)
            fields[key] = kind + ('!' if needed else '')
            inner = kind.lstrip('[]{}')
            if inner[0].isupper():
                todo.append(inner)
    with open(os.path.join(out, 'kubernetes_schema.json'), 'w') as f:
        f.write('{\n"source": "kubernetes-client/python %s (Apache-2.0)"' % kubernetes.__version__)
        for name in sorted(done):
            f.write(',\n"%s": %s' % (name, json.dumps(done[name], separators=(',', ':'))))
        f.write('\n}\n')


if __name__ == '__main__':
    if sys.argv[1] == 'catalog':
        catalog(sys.argv[2], sys.argv[3])
    else:
        schema(sys.argv[2])
