"""Shared by the tests of the Kubernetes client: an emulator, and a client that compares each reply with the models.
Exit 77 (skipped) without the package."""
import json
import os
import sys
import unittest

try:
    import urllib3
    from kubernetes import client, config, watch
    from kubernetes.client.rest import ApiException
except ImportError:
    print('no kubernetes package: skipped (tests/vendor/requirements.txt)')
    sys.exit(77)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'cloudsim'))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cloudsim_proc import Cloudsim  # noqa: E402
from kubernetes_models import check  # noqa: E402

PROGRAM = sys.argv.pop(1) if len(sys.argv) > 1 else 'cloudsim'
NS = 'spotbroker'
GROUP = ('compute.coreweave.com', 'v1alpha1')
H100 = 'gd-8xh100ib-i128'
MERGE = 'application/merge-patch+json'


class Recorder(urllib3.PoolManager):
    """Checks the replies; changes nothing."""
    problems = []

    def request(self, method, url, **kw):
        r = urllib3.PoolManager.request(self, method, url, **kw)
        if kw.get('preload_content', True) and r.headers.get('Content-Type', '').startswith('application/json'):
            Recorder.problems += ['%s %s: %s' % (method, url, p) for p in check(json.loads(r.data))]
        return r


def api_client(kubeconfig):
    made = config.new_client_from_config(config_file=kubeconfig)
    pool = made.rest_client.pool_manager
    recorder = Recorder(**pool.connection_pool_kw)
    made.rest_client.pool_manager = recorder
    return made


class Base(unittest.TestCase):
    options = ('--seed', '31', '--boot-ms', '50', '--terminate-ms', '20', '--no-throttle', '--agents')
    name = 'gpu-east'

    @classmethod
    def setUpClass(cls):
        cls.sim = Cloudsim(PROGRAM, *cls.options)
        cls.info = {k['name']: k for k in cls.sim.info['urls']['kubernetes']}
        cls.cluster = cls.info[cls.name]
        cls.api = api_client(cls.cluster['kubeconfig'])
        cls.core = client.CoreV1Api(cls.api)
        cls.custom = client.CustomObjectsApi(cls.api)
        # The cluster's owner does it: the broker's account may not.
        cls.owner = api_client(cls.cluster.get('kubeconfig_admin') or cls.cluster['kubeconfig'])
        cls.owner_core, cls.owner_custom = client.CoreV1Api(cls.owner), client.CustomObjectsApi(cls.owner)

    @classmethod
    def tearDownClass(cls):
        cls.api.close()
        cls.owner.close()
        assert cls.sim.stop() == 0

    def tearDown(self):
        self.sim.ctl('DELETE', '/fault')
        problems, Recorder.problems = Recorder.problems, []
        self.assertEqual(problems, [])

    def pod(self, name, pool=None, **spec):
        body = {'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': name, 'labels': {'spotbroker.dev/lease': name}},
                'spec': {'restartPolicy': 'Never', 'terminationGracePeriodSeconds': 5, 'serviceAccountName': 'spotbroker-node',
                         'automountServiceAccountToken': False,
                         'tolerations': [{'key': 'spotbroker.dev/dedicated', 'operator': 'Exists'}],
                         'containers': [{'name': 'agent', 'image': 'registry.example/agent@sha256:00',
                                         'command': ['/bin/sh', '-c', 'sleep 600 & wait']}]}}
        if pool:
            body['spec']['nodeSelector'] = {'spotbroker.dev/pool': pool}
            body['spec']['containers'][0]['resources'] = {'limits': {'nvidia.com/gpu': '8', 'rdma/ib': '1'}}
        body['spec'].update(spec)
        return body

    def pool(self, name, target=0, field_validation='', **spec):
        body = {'apiVersion': '/'.join(GROUP), 'kind': 'NodePool',
                'metadata': {'name': name, 'labels': {'spotbroker.dev/owner': 'x'}},
                'spec': dict({'computeClass': 'spot', 'instanceType': H100, 'targetNodes': target, 'autoscaling': False,
                              'nodeLabels': {'spotbroker.dev/pool': name}, 'lifecycle': {'scaleDownStrategy': 'IdleOnly'},
                              'nodeTaints': [{'key': 'spotbroker.dev/dedicated', 'value': 'x', 'effect': 'NoSchedule'}]}, **spec)}
        return self.custom.create_cluster_custom_object(*GROUP, 'nodepools', body, field_validation=field_validation)

    def scale(self, name, target):
        # The client's own choice for this body would be a strategic merge, which no custom resource takes.
        self.api.set_default_header('Content-Type', MERGE)
        try:
            return self.custom.patch_cluster_custom_object(*GROUP, 'nodepools', name, {'spec': {'targetNodes': target}})
        finally:
            del self.api.default_headers['Content-Type']

    def until(self, ok, listing, *args, **kw):
        """Objects as a watch sees them, until ok(type, object)."""
        w = watch.Watch()
        for e in w.stream(listing, *args, timeout_seconds=20, **kw):
            Recorder.problems += ['watch: %s' % p for p in check(e['raw_object'])]
            if ok(e['type'], e['object']):
                w.stop()
                return e['object']
        self.fail('the watch ended')

    def running(self, name):
        return self.until(lambda t, p: p.status.phase == 'Running', self.core.list_namespaced_pod, NS,
                          field_selector='metadata.name=' + name)

    def gone(self, pod):
        """Waits until a pod is gone, from the version at which it was last seen."""
        try:
            seen = self.core.read_namespaced_pod(pod, NS).metadata
        except ApiException as e:
            self.assertEqual(e.status, 404)
            return
        self.until(lambda t, p: t == 'DELETED', self.core.list_namespaced_pod, NS, field_selector='metadata.name=' + pod,
                   resource_version=seen.resource_version)

    def fails(self, status, reason, call, *args, **kw):
        with self.assertRaises(ApiException) as got:
            call(*args, **kw)
        body = json.loads(got.exception.body)
        self.assertEqual((got.exception.status, body['reason'], body['code']), (status, reason, status), body)
        return body
