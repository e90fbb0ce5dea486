#!/usr/bin/env python3
"""cloudsim's CoreWeave and Kubernetes by themselves: control plane, programs of pods, tokens on disk, bills, books, faults,
the object store. argv[1] is the program."""
import json
import os
import select
import sys
import time
import unittest
import urllib.parse

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from cloudsim_proc import Cloudsim, http, sign  # noqa: E402

PROGRAM = sys.argv.pop(1) if len(sys.argv) > 1 else 'cloudsim'
NS = 'spotbroker'
POOLS = '/apis/compute.coreweave.com/v1alpha1/nodepools'
PODS = '/api/v1/namespaces/%s/pods' % NS
H100 = 'gd-8xh100ib-i128'
SPOT = 'coreweave/US-EAST/US-EAST-04A/%s/spot' % H100


class Base(unittest.TestCase):
    options = ('--seed', '17', '--boot-ms', '30', '--terminate-ms', '20', '--no-throttle', '--agents')

    @classmethod
    def setUpClass(cls):
        cls.sim = Cloudsim(PROGRAM, *cls.options)
        cls.clusters = {c['name']: c for c in cls.sim.info['urls']['kubernetes']}
        cls.east = cls.clusters['gpu-east']

    @classmethod
    def tearDownClass(cls):
        assert cls.sim.stop() == 0

    def tearDown(self):
        self.sim.ctl('DELETE', '/fault')
        self.sim.ctl('POST', '/stock', {'pool': '*', 'count': None})
        for p in self.k8s('GET', PODS)[1].get('items', []):
            self.k8s('DELETE', PODS + '/' + p['metadata']['name'] + '?gracePeriodSeconds=0')
        for p in self.k8s('GET', POOLS + '?labelSelector=owner')[1].get('items', []):
            self.owner('DELETE', POOLS + '/' + p['metadata']['name'])
        self.await_left([])

    def await_left(self, want):
        end = time.monotonic() + 60
        while self.sim.ctl('GET', '/books')['left'] != want:
            self.assertLess(time.monotonic(), end, self.sim.ctl('GET', '/books')['left'])
            select.select([], [], [], 0.01)

    def k8s(self, method, path, body=None, type='application/json', cluster=None, token=None, server=None):
        c = self.clusters[cluster] if cluster else self.east
        status, headers, text = http(method, (server or c['server']) + path, None if body is None else json.dumps(body).encode(),
                                     {'Authorization': 'Bearer ' + (token or c['token']), 'Content-Type': type})
        return status, json.loads(text) if headers.get('Content-Type') == 'application/json' else text.decode()

    def owner(self, method, path, body=None):
        """Calls as the cluster's owner, who may do more than the broker's account."""
        return self.k8s(method, path, body, server=self.east['managed_server'],
                        token=self.sim.info['credentials']['coreweave']['api_token'])

    def pool(self, name, target=1, **spec):
        body = {'apiVersion': 'compute.coreweave.com/v1alpha1', 'kind': 'NodePool',
                'metadata': {'name': name, 'labels': {'owner': 'x'}},
                'spec': dict({'computeClass': 'spot', 'instanceType': H100, 'targetNodes': target, 'nodeLabels': {'pool': name}},
                             **spec)}
        status, doc = self.k8s('POST', POOLS, body)
        self.assertEqual(status, 201, doc)
        return doc

    def pod(self, name, script='sleep 600 & wait', pool=None, volumes=(), mounts=(), env=(), **spec):
        body = {'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': name, 'labels': {'lease': name}},
                'spec': dict({'restartPolicy': 'Never', 'terminationGracePeriodSeconds': 10, 'serviceAccountName': 'spotbroker-node',
                              'automountServiceAccountToken': False, 'volumes': list(volumes), 'containers': [{
                                  'name': 'agent', 'image': 'i@sha256:0', 'command': ['/bin/sh', '-c', script],
                                  'env': list(env), 'volumeMounts': list(mounts)}]}, **spec)}
        if pool:
            body['spec']['nodeSelector'] = {'pool': pool}
        status, doc = self.k8s('POST', PODS, body)
        self.assertEqual(status, 201, doc)
        return doc

    def phase(self, name, *want):
        end = time.monotonic() + 60
        while True:
            status, doc = self.k8s('GET', PODS + '/' + name)
            if (status == 404 and 'gone' in want) or (status == 200 and doc['status']['phase'] in want):
                return doc
            self.assertLess(time.monotonic(), end, doc)
            select.select([], [], [], 0.01)

    def log(self, name):
        return self.owner('GET', PODS + '/' + name + '/log')[1]

    def log_has(self, name, text):
        end = time.monotonic() + 60
        while text not in self.log(name):
            self.assertLess(time.monotonic(), end, self.log(name))
            select.select([], [], [], 0.01)


class ControlPlane(Base):
    def get(self, path, token=None):
        token = token or self.sim.info['credentials']['coreweave']['api_token']
        status, _, text = http('GET', self.sim.info['urls']['coreweave'] + path, headers={'Authorization': 'Bearer ' + token})
        return status, json.loads(text)

    def test_two_clusters_run_in_two_zones(self):
        status, doc = self.get('/v1beta1/cks/clusters')
        self.assertEqual((status, [(c['name'], c['zone'], c['status']) for c in doc['items']]),
                         (200, [('gpu-east', 'US-EAST-04A', 'STATUS_RUNNING'), ('gpu-west', 'US-WEST-04A', 'STATUS_RUNNING')]))
        host = urllib.parse.urlsplit(doc['items'][0]['apiServerEndpoint']).hostname
        self.assertRegex(host, r'^cloudsim-\w+\.k8s\.us-east-04a\.')
        status, one = self.get('/v1beta1/cks/clusters/' + doc['items'][0]['id'])
        self.assertEqual((status, one['cluster']['name']), (200, 'gpu-east'))

    def test_errors_carry_googles_details(self):
        status, doc = self.get('/v1beta1/cks/clusters/none')
        self.assertEqual((status, doc['code'], doc['details'][0]['@type']),
                         (404, 5, 'type.googleapis.com/google.rpc.ResourceInfo'))
        self.assertEqual(self.get('/v1beta1/cks/clusters', 'CW-SECRET-old')[0], 403)
        self.sim.ctl('POST', '/fault', {'match': {'service': 'coreweave'}, 'kind': 'status', 'status': 429})
        status, doc = self.get('/v1beta1/cks/clusters')
        self.assertEqual((status, doc['code'], doc['details'][0]['@type']),
                         (429, 8, 'type.googleapis.com/google.rpc.QuotaFailure'))

    def test_the_host_header_tells_the_two_forms_apart(self):
        api = self.sim.info['credentials']['coreweave']['api_token']
        host = urllib.parse.urlsplit(self.east['endpoint']).netloc
        for name, token, want in ((host, api, 200), (host, self.east['token'], 403), ('api.' + host, self.east['token'], 200),
                                  ('api.' + host, api, 401)):
            status, _, _ = http('GET', self.east['server'] + PODS, headers={'Authorization': 'Bearer ' + token, 'Host': name})
            self.assertEqual(status, want, name)

    def test_a_token_of_one_cluster_is_nothing_to_another(self):
        self.assertEqual(self.k8s('GET', PODS, cluster='gpu-west', token=self.east['token'])[0], 401)


class Programs(Base):
    def test_term_comes_at_deletion_and_the_program_has_its_grace(self):
        # A shell waits for its foreground program before its trap.
        self.pod('t-1', 'trap "echo saving; sleep 0.2; echo saved; exit 0" TERM; echo up; while :; do sleep 0.02; done')
        self.log_has('t-1', 'up')
        status, doc = self.k8s('DELETE', PODS + '/t-1')
        self.assertEqual((status, doc['metadata']['deletionGracePeriodSeconds']), (200, 10))
        home = [d for d in os.listdir(os.path.join(self.sim.dir, 'instances')) if d == doc['metadata']['uid']][0]
        self.phase('t-1', 'gone')
        with open(os.path.join(self.sim.dir, 'instances', home, 'console.log')) as f:
            self.assertEqual(f.read(), 'up\nsaving\nsaved\n')

    def test_kill_comes_when_the_grace_is_over(self):
        self.pod('t-2', 'trap "" TERM; echo up; while :; do sleep 0.05; done', terminationGracePeriodSeconds=1)
        self.log_has('t-2', 'up')
        began = time.monotonic()
        self.k8s('DELETE', PODS + '/t-2')
        self.phase('t-2', 'gone')
        self.assertGreater(time.monotonic() - began, 0.9)

    def test_everything_below_a_program_ends_with_it(self):
        self.pod('t-3', 'setsid sh -c \'echo $$$$ > "$HOME/pid"; exec sleep 600\' & while [ ! -s "$HOME/pid" ]; do sleep 0.01; done; exit 4')
        doc = self.phase('t-3', 'Failed', 'Succeeded')
        self.assertEqual(doc['status']['containerStatuses'][0]['state']['terminated']['exitCode'], 4)
        with open(os.path.join(self.sim.dir, 'instances', doc['metadata']['uid'], 'pid')) as f:
            self.assertFalse(os.path.exists('/proc/' + f.read().strip()))

    def test_a_crash_is_an_exit_by_kill(self):
        self.pod('t-4', 'echo up; sleep 600')
        self.log_has('t-4', 'up')
        self.sim.ctl('POST', '/coreweave/crash', {'pod': 't-4'})
        doc = self.phase('t-4', 'Failed')
        self.assertEqual(doc['status']['containerStatuses'][0]['state']['terminated']['exitCode'], 137)

    def test_variables_are_put_in_before_the_shell_sees_the_command(self):
        self.pod('t-9', 'echo "$(A) $(B) $$HOME $B"', env=[{'name': 'A', 'value': 'x'}, {'name': 'HOME', 'value': '/h'},
                                                           {'name': 'B', 'value': '$(A)y'}])
        self.phase('t-9', 'Succeeded')
        self.assertEqual(self.log('t-9'), 'x xy /h xy\n')

    def test_restarts_are_counted(self):
        self.pod('t-5', 'echo again; exit 1', restartPolicy='Always')
        end = time.monotonic() + 60
        while self.k8s('GET', PODS + '/t-5')[1]['status'].get('containerStatuses', [{}])[0].get('restartCount', 0) < 2:
            self.assertLess(time.monotonic(), end)
            select.select([], [], [], 0.02)

    def test_a_token_on_disk_is_replaced_before_it_expires(self):
        self.sim.ctl('POST', '/coreweave/config', {'token_s_max': 1})
        self.pod('t-6', 'cp /run/tok/token "$HOME/first"; while cmp -s /run/tok/token "$HOME/first"; do sleep 0.02; done; echo renewed',
                 volumes=[{'name': 'tok', 'projected': {'sources': [
                     {'serviceAccountToken': {'audience': 'https://b.example', 'path': 'token'}}]}}],
                 mounts=[{'name': 'tok', 'mountPath': '/run/tok'}])
        self.phase('t-6', 'Succeeded')
        self.sim.ctl('POST', '/coreweave/config', {'token_s_max': 0})
        self.assertEqual(self.log('t-6'), 'renewed\n')

    def test_a_missing_secret_is_not_mounted_and_not_in_the_environment(self):
        self.pod('t-7', volumes=[{'name': 's', 'secret': {'secretName': 'none'}}])
        self.pod('t-8', env=[{'name': 'S', 'valueFrom': {'secretKeyRef': {'name': 'none', 'key': 'k'}}}])
        end = time.monotonic() + 60
        while 'FailedMount' not in [e['reason'] for e in self.owner('GET', '/api/v1/events')[1]['items']]:
            self.assertLess(time.monotonic(), end)
        while True:
            s = self.k8s('GET', PODS + '/t-8')[1]['status'].get('containerStatuses', [{'state': {}}])[0]['state']
            if s.get('waiting', {}).get('reason') == 'CreateContainerConfigError':
                break
            self.assertLess(time.monotonic(), end, s)


class Money(Base):
    def test_a_node_is_paid_from_ready_until_it_is_removed(self):
        self.pool('m-1')
        i = self.sim.wait('running')[-1]['instance']
        self.k8s('PATCH', POOLS + '/m-1', {'spec': {'targetNodes': 0}}, 'application/merge-patch+json')
        self.sim.wait('terminated', instance=i)
        line = [x for x in self.sim.ctl('GET', '/books')['instances'] if x['instance'] == i][0]
        s = self.sim.state(i)
        self.assertEqual((line['from_us'], line['segments'][0]['usd_micros_per_hour'], s['ended_by']),
                         (s['running_us'], 19710000, 'scale_down'))
        self.assertEqual(self.sim.ctl('GET', '/books')['double_launches'], [])

    def test_an_open_order_and_an_idle_node_are_left_over(self):
        self.sim.ctl('POST', '/stock', {'pool': SPOT, 'count': 1})
        self.pool('m-2', 3)
        self.sim.wait('running', token=self.k8s('GET', POOLS + '/m-2')[1]['metadata']['uid'])
        left = self.sim.ctl('GET', '/books')['left']
        self.assertEqual(sorted(x.split('/')[1] for x in left if '/' in x), ['idle-node', 'nodepool-target'])

    def test_the_order_stays_open_until_it_is_lowered(self):
        self.sim.ctl('POST', '/stock', {'pool': SPOT, 'count': 0})
        uid = self.pool('m-3')['metadata']['uid']
        self.assertEqual([i for i in self.sim.ctl('GET', '/state')['instances'] if i['token'] == uid], [])
        self.sim.ctl('POST', '/stock', {'pool': SPOT, 'count': 1})
        self.sim.wait('running', token=uid)


class Trouble(Base):
    def test_a_deleted_pool_can_hang_on_its_finalizer(self):
        self.sim.ctl('POST', '/coreweave/config', {'finalizer_stuck': True})
        self.pool('f-1', 0)
        self.assertEqual(self.owner('DELETE', POOLS + '/f-1')[0], 200)
        status, doc = self.k8s('GET', POOLS + '/f-1')
        self.assertEqual((status, 'deletionTimestamp' in doc['metadata']), (200, True))
        self.sim.ctl('POST', '/coreweave/config', {'finalizer_stuck': False})
        self.assertEqual(self.k8s('GET', POOLS + '/f-1')[0], 404)

    def test_a_duplicate_of_a_create_is_refused_by_name(self):
        self.sim.ctl('POST', '/fault', {'match': {'service': 'k8s', 'action': 'POST nodepools'}, 'kind': 'duplicate'})
        body = {'apiVersion': 'compute.coreweave.com/v1alpha1', 'kind': 'NodePool', 'metadata': {'name': 'f-2', 'labels': {'owner': 'x'}},
                'spec': {'instanceType': H100, 'targetNodes': 0}}
        self.assertEqual(self.k8s('POST', POOLS, body)[0], 409)
        self.assertEqual(len(self.k8s('GET', POOLS + '?labelSelector=owner%3Dx')[1]['items']), 1)

    def test_a_write_is_answered_and_not_kept(self):
        self.sim.ctl('POST', '/fault', {'match': {'service': 'k8s', 'action': 'POST pods'}, 'kind': 'pretend'})
        self.assertIn('resourceVersion', self.pod('pretended')['metadata'])
        self.assertEqual(self.k8s('GET', PODS + '/pretended')[0], 404)
        self.pool('f-kept')
        self.pod('pretended', pool='f-kept')
        self.phase('pretended', 'Running')
        self.sim.ctl('POST', '/fault', {'match': {'service': 'k8s', 'action': 'DELETE pods'}, 'kind': 'pretend'})
        status, doc = self.k8s('DELETE', PODS + '/pretended')
        self.assertEqual((status, 'deletionTimestamp' in doc['metadata']), (200, True))
        self.assertNotIn('deletionTimestamp', self.k8s('GET', PODS + '/pretended')[1]['metadata'])
        self.assertEqual(self.k8s('DELETE', PODS + '/pretended')[0], 200)

    def test_nodes_are_cordoned_and_lost_by_hand(self):
        self.pool('f-3')
        self.sim.wait('running', token=self.k8s('GET', POOLS + '/f-3')[1]['metadata']['uid'])
        node = self.k8s('GET', '/api/v1/nodes?labelSelector=pool%3Df-3')[1]['items'][0]['metadata']['name']
        self.sim.ctl('POST', '/coreweave/node', {'node': node, 'state': 'cordon'})
        self.pod('f-3-a', pool='f-3')
        end = time.monotonic() + 60
        while 'unschedulable' not in json.dumps(self.k8s('GET', PODS + '/f-3-a')[1]['status'].get('conditions', '')):
            self.assertLess(time.monotonic(), end)
        self.sim.ctl('POST', '/coreweave/node', {'node': node, 'state': 'ready'})
        self.phase('f-3-a', 'Running')
        self.sim.ctl('POST', '/coreweave/node', {'node': node, 'state': 'not_ready'})
        ready = [c for c in self.owner('GET', '/api/v1/nodes/' + node)[1]['status']['conditions'] if c['type'] == 'Ready'][0]
        self.assertEqual(ready['status'], 'Unknown')

    def test_a_pod_of_a_silent_node_stays_until_the_node_is_gone(self):
        self.pool('f-4')
        self.pod('f-4-a', 'trap "echo term" TERM; echo up; while :; do sleep 0.02; done', pool='f-4', tolerations=[
            {'key': 'node.kubernetes.io/not-ready', 'operator': 'Exists', 'effect': 'NoExecute', 'tolerationSeconds': 1}])
        self.phase('f-4-a', 'Running')
        self.log_has('f-4-a', 'up')
        node = self.k8s('GET', PODS + '/f-4-a')[1]['spec']['nodeName']
        self.sim.ctl('POST', '/coreweave/node', {'node': node, 'state': 'not_ready'})
        end = time.monotonic() + 60
        while 'deletionTimestamp' not in self.k8s('GET', PODS + '/f-4-a')[1]['metadata']:
            self.assertLess(time.monotonic(), end)
            select.select([], [], [], 0.02)
        doc = self.k8s('GET', PODS + '/f-4-a')[1]
        reasons = {c['type']: c.get('reason') for c in doc['status']['conditions']}
        self.assertEqual((doc['status']['phase'], reasons['DisruptionTarget']), ('Running', 'DeletionByTaintManager'))
        self.assertEqual(self.log('f-4-a'), 'up\n')
        self.sim.ctl('POST', '/coreweave/node', {'node': node, 'state': 'gone'})
        self.assertEqual(self.k8s('GET', PODS + '/f-4-a')[0], 404)

    def test_an_emulator_that_ends_takes_all_programs_along(self):
        sim = Cloudsim(PROGRAM, *self.options)
        c = [x for x in sim.info['urls']['kubernetes'] if x['name'] == 'plain'][0]
        body = {'metadata': {'name': 'q-1'}, 'spec': {'serviceAccountName': 'spotbroker-node', 'automountServiceAccountToken': False,
                                                       'containers': [{'name': 'a', 'image': 'i', 'command': [
                                                           '/bin/sh', '-c', 'trap "" TERM; echo $$$$ > "$HOME/pid"; while :; do sleep 0.05; done']}]}}
        status, _, text = http('POST', c['server'] + PODS, json.dumps(body).encode(), {
            'Authorization': 'Bearer ' + c['token'], 'Content-Type': 'application/json'})
        self.assertEqual(status, 201, text)
        path = os.path.join(sim.dir, 'instances', json.loads(text)['metadata']['uid'], 'pid')
        end = time.monotonic() + 60
        while not (os.path.exists(path) and os.path.getsize(path)):
            self.assertLess(time.monotonic(), end)
            select.select([], [], [], 0.01)
        with open(path) as f:
            pid = f.read().strip()
        self.assertEqual(sim.stop(), 0)
        self.assertFalse(os.path.exists('/proc/' + pid))

    def test_a_bad_control_request_says_what_is_wrong(self):
        for what, body in (('config', {'x': 1}), ('quota', {}), ('rbac', {'deny': 'x'}), ('image', {}), ('node', {'node': 'x'}),
                           ('node', {'node': '*', 'state': 'sleepy'}),
                           ('nonsense', {})):
            self.assertIn('error', self.sim.ctl('POST', '/coreweave/' + what, body, ok=False), what)


class Objects(Base):
    def s3(self, method, bucket, path, body=b''):
        url = self.sim.info['urls']['cwobject']
        host = urllib.parse.urlsplit(url).netloc
        host = bucket + '.' + host if bucket else host
        signed = sign(method, 'http://' + host + path, body, {}, self.sim.aws['access_key_id'],
                      self.sim.aws['secret_access_key'], 'us-east-04a', 's3')
        status, _, text = http(method, url + path, body or None, dict(signed, Host=host))
        return status, text

    def test_buckets_are_named_by_the_host_alone(self):
        self.assertEqual(self.s3('PUT', 'ckpt', '/')[0], 200)
        self.assertEqual(self.s3('PUT', 'ckpt', '/a/b', b'bytes')[0], 200)
        self.assertEqual(self.s3('GET', 'ckpt', '/a/b'), (200, b'bytes'))
        status, text = self.s3('GET', '', '/ckpt/a/b')
        self.assertEqual((status, b'Path' in text), (400, True))
        self.assertEqual(self.s3('DELETE', 'ckpt', '/a/b')[0], 204)


if __name__ == '__main__':
    unittest.main(verbosity=2)
