#!/usr/bin/env python3
"""The official Kubernetes client drives cloudsim's API servers, unpatched, by the kubeconfig files that it writes:
pods, watches, NodePools, tokens, errors, a reclaim. The client's models parse every reply, and every reply is compared
with them: no unknown member, no required one missing. argv[1] is the emulator's program. Exit 77 (skipped) without the
package."""
import base64
import datetime
import json
import os
import re
import sys
import unittest

try:
    import urllib3
    import yaml
    from kubernetes import client, watch
    from kubernetes.client.rest import ApiException
except ImportError:
    print('no kubernetes package: skipped (tests/vendor/requirements.txt)')
    sys.exit(77)

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from kubernetes_base import Base, GROUP, H100, NS, api_client  # noqa: E402
from kubernetes_models import MODELS, SEEN, check  # noqa: E402
from world import exchange as http  # noqa: E402


class Pods(Base):
    def test_a_pod_is_made_listed_watched_and_deleted(self):
        made = self.core.create_namespaced_pod(NS, self.pod('p-1'))
        self.assertEqual((made.status.phase, made.spec.dns_policy, made.metadata.generation), ('Pending', 'ClusterFirst', 1))
        self.running('p-1')
        names = [p.metadata.name for p in self.core.list_namespaced_pod(NS, label_selector='spotbroker.dev/lease=p-1').items]
        self.assertEqual(names, ['p-1'])
        self.assertEqual(self.core.list_namespaced_pod(NS, label_selector='spotbroker.dev/lease notin (p-1)').items, [])
        gone = self.core.delete_namespaced_pod('p-1', NS)
        self.assertEqual(gone.metadata.deletion_grace_period_seconds, 5)
        self.gone('p-1')
        self.fails(404, 'NotFound', self.core.read_namespaced_pod, 'p-1', NS)

    def test_names_are_taken_once_and_deletes_can_ask_for_the_same_object(self):
        uid = self.core.create_namespaced_pod(NS, self.pod('p-2')).metadata.uid
        self.fails(409, 'AlreadyExists', self.core.create_namespaced_pod, NS, self.pod('p-2'))
        other = client.V1DeleteOptions(preconditions=client.V1Preconditions(uid='00000000-0000-4000-8000-000000000000'))
        self.fails(409, 'Conflict', self.core.delete_namespaced_pod, 'p-2', NS, body=other)
        self.core.delete_namespaced_pod('p-2', NS, body=client.V1DeleteOptions(
            grace_period_seconds=0, preconditions=client.V1Preconditions(uid=uid)))
        self.fails(404, 'NotFound', self.core.read_namespaced_pod, 'p-2', NS)

    def test_an_eviction_ends_a_pod_with_its_condition(self):
        self.core.create_namespaced_pod(NS, self.pod('evicted'))
        body = client.V1Eviction(metadata=client.V1ObjectMeta(name='evicted', namespace=NS))
        self.fails(403, 'Forbidden', self.core.create_namespaced_pod_eviction, 'evicted', NS, body)
        body.delete_options = client.V1DeleteOptions(dry_run=['All'])
        self.owner_core.create_namespaced_pod_eviction('evicted', NS, body)
        self.assertIsNone(self.core.read_namespaced_pod('evicted', NS).metadata.deletion_timestamp)
        body.delete_options = client.V1DeleteOptions(preconditions=client.V1Preconditions(uid='another'))
        self.fails(409, 'Conflict', self.owner_core.create_namespaced_pod_eviction, 'evicted', NS, body)
        body.delete_options = None
        since = self.core.list_namespaced_pod(NS).metadata.resource_version
        seen = watch.Watch().stream(self.core.list_namespaced_pod, NS, field_selector='metadata.name=evicted', timeout_seconds=20,
                                    resource_version=since)  # it is opened when it is read
        self.owner_core.create_namespaced_pod_eviction('evicted', NS, body)
        for e in seen:
            last = e['object']
            if e['type'] == 'DELETED':
                break
        self.assertIn(('DisruptionTarget', 'True', 'EvictionByEvictionAPI'),
                      [(c.type, c.status, c.reason) for c in last.status.conditions])
        self.fails(404, 'NotFound', self.owner_core.create_namespaced_pod_eviction, 'evicted', NS, body)

    def test_errors_of_a_pod_are_listed_member_by_member(self):
        def causes(**change):
            body = self.pod('p-3')
            body['spec'].update(change)
            return [(c['reason'], c['field']) for c in self.fails(
                422, 'Invalid', self.core.create_namespaced_pod, NS, body)['details']['causes']]
        box = self.pod('p-3')['spec']['containers'][0]
        self.assertEqual(causes(restartPolicy='Sometimes'), [('FieldValueNotSupported', 'spec.restartPolicy')])
        self.assertEqual(causes(containers=[]), [('FieldValueRequired', 'spec.containers')])
        self.assertEqual(causes(containers=[dict(box, name='Agent!')]), [('FieldValueInvalid', 'spec.containers[0].name')])
        self.assertEqual(causes(containers=[{'image': 'x'}]), [('FieldValueRequired', 'spec.containers[0].name')])
        self.assertEqual(causes(containers=[dict(box, resources={'requests': {'nvidia.com/gpu': '1'}})]),
                         [('FieldValueRequired', 'spec.containers[0].resources.limits')])
        self.assertEqual(causes(containers=[dict(box, resources={'requests': {'rdma/ib': '1'}, 'limits': {'rdma/ib': '2'}})]),
                         [('FieldValueInvalid', 'spec.containers[0].resources.requests')])
        self.assertEqual(causes(containers=[dict(box, volumeMounts=[{'name': 'no', 'mountPath': '/x'}])]),
                         [('FieldValueNotFound', 'spec.containers[0].volumeMounts[0].name')])
        self.assertEqual(causes(tolerations=[{'key': 'a', 'operator': 'Exists', 'effect': 'NoSchedule', 'tolerationSeconds': 9}]),
                         [('FieldValueInvalid', 'spec.tolerations[0].effect')])
        self.assertEqual(causes(nodeSelector={'a b': 'c'}), [('FieldValueInvalid', 'spec.nodeSelector')])

    def test_a_dry_run_of_a_deletion_deletes_nothing(self):
        admin = client.CoreV1Api(api_client(self.cluster['kubeconfig_admin']))
        self.core.create_namespaced_pod(NS, self.pod('p-dry'))
        self.addCleanup(self.core.delete_namespaced_pod, 'p-dry', NS)
        for how in ({'dry_run': 'All'}, {'body': {'dryRun': ['All']}}):
            gone = self.core.delete_namespaced_pod('p-dry', NS, **how)
            self.assertIsNotNone(gone.metadata.deletion_timestamp)
            self.assertIsNone(self.core.read_namespaced_pod('p-dry', NS).metadata.deletion_timestamp)
        patched = admin.patch_namespaced_pod('p-dry', NS, [
            {'op': 'add', 'path': '/metadata/labels', 'value': {'n': '7'}},
            {'op': 'copy', 'from': '/metadata/labels/n', 'path': '/metadata/labels/m'},
            {'op': 'move', 'from': '/metadata/labels/m', 'path': '/metadata/labels/k'}])
        self.assertEqual(patched.metadata.labels, {'n': '7', 'k': '7'})
        for selector, n in (('n>5', 1), ('n<5', 0), ('n>7', 0)):
            self.assertEqual(len(self.core.list_namespaced_pod(NS, label_selector=selector).items), n, selector)
        more = admin.patch_namespaced_pod('p-dry', NS, [{'op': 'add', 'path': '/spec/tolerations/-', 'value': {'key': 'zz', 'operator': 'Exists'}}])
        self.assertIn('zz', [t.key for t in more.spec.tolerations])
        self.fails(422, 'Invalid', admin.patch_namespaced_pod, 'p-dry', NS, [{'op': 'replace', 'path': '/spec/tolerations', 'value': []}])
        self.fails(504, 'Timeout', self.core.list_namespaced_pod, NS, resource_version='999999999')
        self.fails(422, 'Invalid', self.core.list_namespaced_pod, NS, resource_version_match='Exact')

    def test_an_unknown_member_is_refused_where_that_is_asked_for(self):
        body = self.pod('p-4', terminationGracePeriodSecond=3)
        message = self.fails(400, 'BadRequest', self.core.create_namespaced_pod, NS, body, field_validation='Strict')['message']
        self.assertIn('strict decoding error: unknown field "spec.terminationGracePeriodSecond"', message)
        for how in ({}, {'field_validation': 'Warn'}, {'field_validation': 'Ignore'}):
            made, status, headers = self.core.create_namespaced_pod_with_http_info(NS, body, dry_run='All', **how)
            self.assertEqual(status, 201)
            self.assertEqual('unknown field' in headers.get('Warning', ''), how.get('field_validation') != 'Ignore')
        self.fails(422, 'Invalid', self.core.create_namespaced_pod, NS, body, field_validation='Perhaps')
        body = self.pod('p-4', hostNetwork='yes')
        self.fails(400, 'BadRequest', self.core.create_namespaced_pod, NS, body)
        self.fails(400, 'BadRequest', self.core.list_namespaced_pod, NS, field_selector='spec.image=x')

    def test_a_stale_version_is_a_conflict(self):
        admin = client.CoreV1Api(api_client(self.cluster['kubeconfig_admin']))
        first = admin.create_namespaced_pod(NS, self.pod('p-5')).metadata.resource_version
        self.running('p-5')
        change = {'metadata': {'resourceVersion': first, 'labels': {'a': 'b'}}}
        self.fails(409, 'Conflict', admin.patch_namespaced_pod, 'p-5', NS, change)
        del change['metadata']['resourceVersion']
        self.assertEqual(admin.patch_namespaced_pod('p-5', NS, change).metadata.labels['a'], 'b')
        steps = [{'op': 'test', 'path': '/metadata/labels/a', 'value': 'b'}, {'op': 'remove', 'path': '/metadata/labels/a'}]
        self.assertNotIn('a', admin.patch_namespaced_pod('p-5', NS, steps).metadata.labels)
        frozen = {'spec': {'restartPolicy': 'Always'}}
        self.assertIn('Forbidden', self.fails(422, 'Invalid', admin.patch_namespaced_pod, 'p-5', NS, frozen)['message'])
        admin.delete_namespaced_pod('p-5', NS, grace_period_seconds=0)

    def test_a_list_comes_in_chunks_and_a_chunk_can_be_too_late(self):
        for k in range(5):
            self.core.create_namespaced_pod(NS, self.pod('chunk-%d' % k, nodeSelector={'no': 'where'}))
        page = self.core.list_namespaced_pod(NS, limit=2, label_selector='spotbroker.dev/lease')
        names = [p.metadata.name for p in page.items]
        while page.metadata._continue:
            token = page.metadata._continue
            page = self.core.list_namespaced_pod(NS, limit=2, _continue=token, label_selector='spotbroker.dev/lease')
            names += [p.metadata.name for p in page.items]
        self.assertEqual([n for n in names if n.startswith('chunk-')], ['chunk-%d' % k for k in range(5)])
        self.sim.ctl('POST', '/coreweave/compact', {})
        self.fails(410, 'Expired', self.core.list_namespaced_pod, NS, limit=2, _continue=token)
        for k in range(5):
            self.core.delete_namespaced_pod('chunk-%d' % k, NS)

    def test_a_container_runs_with_its_environment_and_its_token(self):
        script = 'echo "$GREETING $0 $(cat /etc/spot/token | cut -d. -f1 | wc -c)"; exit 3'
        body = self.pod('p-6', volumes=[{'name': 'tok', 'projected': {'sources': [{'serviceAccountToken': {
            'audience': 'https://broker.example', 'expirationSeconds': 600, 'path': 'token'}}]}}])
        body['spec']['containers'][0].update(command=['/bin/sh', '-c', script, '$(GREETING)'],
                                             env=[{'name': 'GREETING', 'value': 'hello'}],
                                             volumeMounts=[{'name': 'tok', 'mountPath': '/etc/spot'}])
        self.core.create_namespaced_pod(NS, body)
        done = self.until(lambda t, p: p.status.phase in ('Failed', 'Succeeded'), self.core.list_namespaced_pod, NS,
                          field_selector='metadata.name=p-6')
        ended = done.status.container_statuses[0].state.terminated
        self.assertEqual((done.status.phase, ended.exit_code, ended.reason), ('Failed', 3, 'Error'))
        self.assertRegex(self.owner_core.read_namespaced_pod_log('p-6', NS), r'^hello hello \d\d')
        self.core.delete_namespaced_pod('p-6', NS)


class Watches(Base):
    def raw(self, **query):
        q = dict(query, watch='1', timeoutSeconds='1')
        url = self.cluster['server'] + '/api/v1/namespaces/%s/pods?' % NS + '&'.join('%s=%s' % x for x in q.items())
        status, _, text = http('GET', url, headers={'Authorization': 'Bearer ' + self.cluster['token']})
        return status, [json.loads(line) for line in text.decode().splitlines()]

    def test_a_watch_too_old_is_told_in_stream_or_by_status(self):
        old = self.core.list_namespaced_pod(NS).metadata.resource_version
        self.sim.ctl('POST', '/coreweave/compact', {})
        status, lines = self.raw(resourceVersion=old)
        self.assertEqual((status, lines[0]['type'], lines[0]['object']['code'], lines[0]['object']['reason']),
                         (200, 'ERROR', 410, 'Expired'))
        self.sim.ctl('POST', '/coreweave/config', {'expired_by_http': True})
        self.assertEqual(self.raw(resourceVersion=old)[0], 410)
        self.sim.ctl('POST', '/coreweave/config', {'expired_by_http': False})
        w = watch.Watch()
        with self.assertRaises(ApiException) as got:
            list(w.stream(self.core.list_namespaced_pod, NS, resource_version=old, timeout_seconds=2))
        self.assertEqual(got.exception.status, 410)

    def test_bookmarks_and_the_end_of_a_streaming_list(self):
        self.sim.ctl('POST', '/coreweave/config', {'bookmark_ms': 100})
        rv = self.core.list_namespaced_pod(NS).metadata.resource_version
        status, lines = self.raw(resourceVersion=rv, allowWatchBookmarks='true')
        self.assertEqual((status, {x['type'] for x in lines}), (200, {'BOOKMARK'}))
        self.assertGreater(len(lines), 3)
        self.assertTrue(lines[0]['object']['metadata']['resourceVersion'])
        q = dict(sendInitialEvents='true', allowWatchBookmarks='true', resourceVersionMatch='NotOlderThan')
        marks = [x['object']['metadata'].get('annotations', {}) for x in self.raw(**q)[1] if x['type'] == 'BOOKMARK']
        self.assertEqual(marks[0], {'k8s.io/initial-events-end': 'true'})
        self.sim.ctl('POST', '/coreweave/config', {'watch_list': False, 'bookmark_ms': 60000})
        self.assertEqual(self.raw(**q)[0], 422)
        self.sim.ctl('POST', '/coreweave/config', {'watch_list': True})

    def test_a_watch_resumes_where_a_list_ended(self):
        rv = self.core.list_namespaced_pod(NS).metadata.resource_version
        self.core.create_namespaced_pod(NS, self.pod('w-1', nodeSelector={'no': 'where'}))
        self.core.delete_namespaced_pod('w-1', NS)
        _, lines = self.raw(resourceVersion=rv)
        self.assertEqual([x['type'] for x in lines][0], 'ADDED')
        self.assertEqual([x['type'] for x in lines][-1], 'DELETED')
        for line in lines:
            self.assertEqual(check(line['object']), [])
        versions = [int(x['object']['metadata']['resourceVersion']) for x in lines]
        self.assertEqual(versions, sorted(set(versions)))


class NodePools(Base):
    def node_of(self, pool):
        return self.core.list_node(label_selector='spotbroker.dev/pool=' + pool).items

    def drop(self, *names):
        for p in self.core.list_namespaced_pod(NS).items:
            self.core.delete_namespaced_pod(p.metadata.name, NS, grace_period_seconds=0)
        for n in names:
            self.scale(n, 0)
            self.owner_custom.delete_cluster_custom_object(*GROUP, 'nodepools', n)

    def test_a_pool_brings_a_node_and_takes_it_back_when_idle(self):
        self.pool('np-1')
        self.core.create_namespaced_pod(NS, self.pod('np-1-a', 'np-1'))
        waiting = self.until(lambda t, p: p.status.conditions, self.core.list_namespaced_pod, NS,
                             field_selector='metadata.name=np-1-a').status.conditions[0]
        self.assertEqual((waiting.type, waiting.status, waiting.reason), ('PodScheduled', 'False', 'Unschedulable'))
        self.assertRegex(waiting.message, r'^0/\d+ nodes are available: ')
        self.scale('np-1', 1)
        self.running('np-1-a')
        node = self.node_of('np-1')[0]
        self.assertEqual(node.metadata.labels['node.kubernetes.io/instance-type'], H100)
        self.assertEqual(node.status.allocatable['nvidia.com/gpu'], '8')
        self.assertEqual(node.metadata.labels['compute.coreweave.com/node-pool'], 'np-1')
        # IdleOnly: a busy node stays, whatever the target says.
        self.scale('np-1', 0)
        self.assertEqual(len(self.node_of('np-1')), 1)
        self.core.delete_namespaced_pod('np-1-a', NS)
        self.sim.wait('terminated')
        self.assertEqual(self.node_of('np-1'), [])
        reasons = {e.reason for e in self.owner_core.list_event_for_all_namespaces(field_selector='involvedObject.name=np-1').items}
        self.assertLessEqual({'CWNodePoolScaledUp', 'CWNodePoolScaledDown', 'CWNodeAssigned'}, reasons)
        self.owner_custom.delete_cluster_custom_object(*GROUP, 'nodepools', 'np-1')
        self.fails(404, 'NotFound', self.custom.get_cluster_custom_object, *GROUP, 'nodepools', 'np-1')
        self.assertEqual(self.sim.ctl('GET', '/books')['left'], [])

    def test_a_pool_without_stock_waits_and_fills_when_stock_returns(self):
        self.sim.ctl('POST', '/stock', {'pool': 'coreweave/US-EAST/US-EAST-04A/%s/spot' % H100, 'count': 0})
        self.pool('np-2', 1)
        full = self.until(lambda t, p: p['status'].get('queuedNodes') == 1 if 'status' in p else False,
                          self.owner_custom.list_cluster_custom_object, *GROUP, 'nodepools', label_selector='spotbroker.dev/owner=x')
        cond = {c['type']: c for c in full['status']['conditions']}
        self.assertEqual((cond['Capacity']['status'], cond['Ready']['status']), ('False', 'False'))
        self.assertEqual(self.owner_core.list_event_for_all_namespaces(field_selector='reason=CWInsufficientCapacity').items[0].
                         involved_object.name, 'np-2')
        self.assertEqual(self.sim.ctl('GET', '/books')['left'], ['gpu-east/nodepool-target/np-2'])
        self.sim.ctl('POST', '/stock', {'pool': 'coreweave', 'count': None})
        self.until(lambda t, n: True, self.owner_core.list_node, label_selector='spotbroker.dev/pool=np-2')
        self.drop('np-2')

    def test_quota_fails_the_whole_target_by_condition_or_at_once(self):
        self.sim.ctl('POST', '/coreweave/quota', {'type': H100, 'nodes': 1})
        self.pool('np-3', 2)
        over = self.until(lambda t, p: 'status' in p and any(c['reason'] == 'OverQuota' for c in p['status']['conditions']),
                          self.owner_custom.list_cluster_custom_object, *GROUP, 'nodepools', label_selector='spotbroker.dev/owner=x')
        self.assertEqual((over['status']['currentNodes'], over['status']['inProgress']), (0, 0))
        self.sim.ctl('POST', '/coreweave/config', {'quota_by_admission': True})
        self.fails(403, 'Forbidden', self.scale, 'np-3', 3)
        self.sim.ctl('POST', '/coreweave/config', {'quota_by_admission': False})
        self.sim.ctl('POST', '/coreweave/quota', {'type': H100, 'nodes': None})
        self.drop('np-3')

    def test_errors_of_a_pool_are_listed(self):
        def causes(**spec):
            try:
                self.pool('np-4', **spec)
            except ApiException as e:
                self.assertEqual(e.status, 422, e.body)
                return [c['field'] for c in json.loads(e.body)['details']['causes']]
            self.fail('accepted')
        self.assertEqual(causes(instanceType=None), ['spec.instanceType'])
        self.assertEqual(causes(instanceType='gd-9xh100'), ['spec.instanceType'])
        self.assertEqual(causes(computeClass='cheap'), ['spec.computeClass'])
        self.assertEqual(causes(targetNodes='3'), ['spec.targetNodes'])
        self.assertEqual(causes(targetRacks=1), ['spec', 'spec.targetRacks'])
        self.assertEqual(causes(nodeLabels={'node.coreweave.cloud/x': 'y'}), ['spec.nodeLabels'])
        self.assertEqual(causes(maxNodes=2, target=3), ['spec.targetNodes'])
        self.assertEqual(causes(instanceType='gb200-4x'), ['spec.computeClass'])
        with self.assertRaises(ApiException) as got:
            self.pool('np-4', field_validation='Strict', region='US-EAST')
        self.assertIn('unknown field "spec.region"', json.loads(got.exception.body)['message'])

    def test_a_reclaim_shows_on_node_and_pod_and_the_pool_fills_again(self):
        self.pool('np-5', 1)
        body = self.pod('np-5-a', 'np-5')
        body['spec']['containers'][0]['command'] = ['/bin/sh', '-c', 'trap "echo saved; exit 0" TERM; while :; do sleep 0.05; done']
        self.core.create_namespaced_pod(NS, body)
        pod = self.running('np-5-a')
        node = pod.spec.node_name
        self.sim.ctl('POST', '/reclaim', {'pool': 'coreweave/US-EAST/US-EAST-04A/%s/spot' % H100, 'notice_s': 1})
        told = self.until(lambda t, p: p.metadata.deletion_timestamp, self.core.list_namespaced_pod, NS,
                          field_selector='metadata.name=np-5-a', resource_version=pod.metadata.resource_version)
        self.assertIn('DisruptionTarget', [c.type for c in told.status.conditions])
        seen = self.owner_core.read_node(node)
        self.assertTrue(seen.spec.unschedulable)
        self.assertIn('node.kubernetes.io/unschedulable', [t.key for t in seen.spec.taints])
        self.gone('np-5-a')
        fresh = self.until(lambda t, n: n.metadata.name != node, self.owner_core.list_node, label_selector='spotbroker.dev/pool=np-5')
        self.assertNotEqual(fresh.metadata.name, node)
        self.drop('np-5')

    def test_a_dead_server_takes_its_pod_along_without_a_word(self):
        self.pool('np-6', 1)
        self.core.create_namespaced_pod(NS, self.pod('np-6-a', 'np-6'))
        self.running('np-6-a')
        self.sim.ctl('POST', '/kill', {'pool': 'coreweave'})
        self.gone('np-6-a')
        self.drop('np-6')


class Identity(Base):
    def test_a_token_is_signed_lives_as_long_as_it_says_and_is_reviewed(self):
        body = client.AuthenticationV1TokenRequest(spec=client.V1TokenRequestSpec(
            audiences=['https://broker.example'], expiration_seconds=900))
        got = self.owner_core.create_namespaced_service_account_token('spotbroker-node', NS, body)
        claims = json.loads(base64.urlsafe_b64decode(got.status.token.split('.')[1] + '=='))
        self.assertEqual((claims['sub'], claims['aud']), ('system:serviceaccount:%s:spotbroker-node' % NS, ['https://broker.example']))
        self.assertAlmostEqual(claims['exp'], got.status.expiration_timestamp.timestamp(), delta=1)
        review = client.AuthenticationV1Api(self.api).create_token_review
        spec = client.V1TokenReviewSpec(token=got.status.token, audiences=['https://broker.example'])
        yes = review(client.V1TokenReview(spec=spec)).status
        self.assertEqual((yes.authenticated, yes.audiences, yes.user.username),
                         (True, ['https://broker.example'], claims['sub']))
        for bad in (client.V1TokenReviewSpec(token=got.status.token, audiences=['https://else.example']),
                    client.V1TokenReviewSpec(token=got.status.token[:-9] + 'AAAAAAAAA', audiences=['https://broker.example'])):
            no = review(client.V1TokenReview(spec=bad)).status
            self.assertFalse(no.authenticated)
            self.assertTrue(no.error)
        body.spec.expiration_seconds = 60
        self.fails(422, 'Invalid', self.owner_core.create_namespaced_service_account_token, 'spotbroker-node', NS, body)

    def test_the_server_names_the_caller(self):
        me = client.AuthenticationV1Api(self.api).create_self_subject_review(client.V1SelfSubjectReview())
        self.assertTrue(me.status.user_info.username)

    def test_the_server_may_give_less_time(self):
        self.sim.ctl('POST', '/coreweave/config', {'token_s_max': 700})
        body = client.AuthenticationV1TokenRequest(spec=client.V1TokenRequestSpec(audiences=[], expiration_seconds=3600))
        got = self.core.create_namespaced_service_account_token('spotbroker', NS, body)
        self.sim.ctl('POST', '/coreweave/config', {'token_s_max': 0})
        self.assertEqual(got.spec.expiration_seconds, 700)
        left = got.status.expiration_timestamp - datetime.datetime.now(datetime.timezone.utc)
        self.assertLess(left.total_seconds(), 701)

    def test_each_host_takes_its_own_kind_of_token(self):
        c, api = self.cluster, self.sim.info['credentials']['coreweave']['api_token']
        for server, token, status in ((c['server'], c['token'], 200), (c['server'], api, 401), (c['managed_server'], api, 200),
                                      (c['managed_server'], c['token'], 403), (c['server'], 'x.y.z', 401)):
            got, _, _ = http('GET', server + '/api/v1/namespaces/%s/pods' % NS, headers={'Authorization': 'Bearer ' + token})
            self.assertEqual(got, status, (server, token[:8]))
        self.sim.ctl('POST', '/coreweave/token', {'expired': True})
        for url in (c['managed_server'] + '/api', self.sim.info['urls']['coreweave'] + '/v1beta1/cks/clusters'):
            self.assertEqual(http('GET', url, headers={'Authorization': 'Bearer ' + api})[0], 403)
        self.sim.ctl('POST', '/coreweave/token', {'expired': False})

    def test_rights_are_the_rules_of_the_deployed_role_and_no_more(self):
        """Every verb on every resource of deploy/iam/coreweave-rbac.yaml and its neighbours, asked as the SDK asks."""
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'deploy', 'iam', 'coreweave-rbac.yaml')) as f:
            roles = [d for d in yaml.safe_load_all(f) if d and d['kind'] in ('Role', 'ClusterRole')]
        granted = {(d['metadata'].get('namespace'), g, r, v, tuple(rule.get('resourceNames', ())))
                   for d in roles for rule in d['rules'] for g in rule['apiGroups'] for r in rule['resources'] for v in rule['verbs']}
        self.assertEqual(len({g[0] for g in granted}), 3)  # two Roles and the ClusterRole were read

        def expected(ns, group, resource, verb, name):
            return any(g[1:4] == (group, resource, verb) and g[0] in (None, ns) and (not g[4] or name in g[4]) for g in granted)
        api = client.AuthorizationV1Api(self.api)
        asked = 0
        for ns in (NS, 'default', 'kube-system', None):
            for group, resource in (('', 'pods'), ('', 'pods/log'), ('', 'nodes'), ('', 'events'), ('', 'resourcequotas'),
                                    ('', 'namespaces'), ('', 'secrets'), ('', 'serviceaccounts'), ('', 'serviceaccounts/token'),
                                    (GROUP[0], 'nodepools'), ('authentication.k8s.io', 'tokenreviews')):
                for verb in ('get', 'list', 'watch', 'create', 'update', 'patch', 'delete'):
                    for name in (None, 'spotbroker') if resource == 'serviceaccounts/token' else (None,):
                        plain, _, sub = resource.partition('/')
                        got = api.create_self_subject_access_review(client.V1SelfSubjectAccessReview(
                            spec=client.V1SelfSubjectAccessReviewSpec(resource_attributes=client.V1ResourceAttributes(
                                verb=verb, group=group, resource=plain, subresource=sub or None, namespace=ns, name=name))))
                        self.assertEqual(got.status.allowed, expected(ns, group, resource, verb, name),
                                         (ns, group, resource, verb, name))
                        asked += 1
        self.assertGreater(asked, 300)
        self.fails(403, 'Forbidden', self.core.read_namespace, NS)
        self.fails(403, 'Forbidden', self.core.list_namespaced_pod, 'kube-system')
        self.fails(403, 'Forbidden', self.custom.delete_cluster_custom_object, *GROUP, 'nodepools', 'any')

    def test_a_right_can_be_taken_away(self):
        def may(verb, resource, group=None):
            attrs = client.V1ResourceAttributes(verb=verb, resource=resource, group=group, namespace=NS)
            return client.AuthorizationV1Api(self.api).create_self_subject_access_review(client.V1SelfSubjectAccessReview(
                spec=client.V1SelfSubjectAccessReviewSpec(resource_attributes=attrs))).status.allowed
        self.assertTrue(may('create', 'pods'))
        self.assertTrue(may('patch', 'nodepools', GROUP[0]))
        self.assertFalse(may('get', 'secrets'))
        self.fails(403, 'Forbidden', self.core.patch_namespaced_pod, 'none', NS, {'metadata': {'labels': {'a': 'b'}}})
        self.sim.ctl('POST', '/coreweave/rbac', {'deny': ['create pods']})
        self.assertFalse(may('create', 'pods'))
        self.fails(403, 'Forbidden', self.core.create_namespaced_pod, NS, self.pod('rbac-1'))
        self.sim.ctl('POST', '/coreweave/rbac', {'deny': []})


class Faults(Base):
    def test_faults_have_the_vendors_shape(self):
        self.sim.ctl('POST', '/fault', {'match': {'service': 'k8s', 'action': 'GET pods'}, 'kind': 'status', 'status': 500,
                                        'code': 'ServerTimeout', 'message': 'try again'})
        self.assertEqual(self.fails(500, 'ServerTimeout', self.core.list_namespaced_pod, NS)['details']['retryAfterSeconds'], 1)
        # The client obeys Retry-After of a 429 by itself.
        self.sim.ctl('POST', '/fault', {'match': {'service': 'k8s', 'action': 'GET pods'}, 'kind': 'status', 'status': 429,
                                        'code': 'TooManyRequests', 'message': 'slow down'})
        self.core.list_namespaced_pod(NS)
        told = [c for c in self.sim.ctl('GET', '/state')['requests'] if (c['service'], c['action']) == ('fault', 'GET pods')]
        self.assertEqual(sum(c['n'] for c in told), 2)

    def test_an_effect_can_happen_although_the_reply_is_lost(self):
        self.sim.ctl('POST', '/fault', {'match': {'service': 'k8s', 'action': 'POST pods'}, 'kind': 'reset_after'})
        with self.assertRaises(urllib3.exceptions.HTTPError):
            self.core.create_namespaced_pod(NS, self.pod('lost-1', nodeSelector={'no': 'where'}))
        self.assertEqual(self.core.read_namespaced_pod('lost-1', NS).metadata.name, 'lost-1')
        self.core.delete_namespaced_pod('lost-1', NS)

    def test_a_quota_of_the_namespace_refuses_a_pod(self):
        self.sim.ctl('POST', '/coreweave/pod-quota', {'hard': {'pods': '0'}})
        self.assertIn('exceeded quota', self.fails(403, 'Forbidden', self.core.create_namespaced_pod, NS, self.pod('q-1'))['message'])
        self.assertEqual(self.core.list_namespaced_resource_quota(NS).items[0].spec.hard, {'pods': '0'})
        self.sim.ctl('POST', '/coreweave/pod-quota', {'hard': None})

    def test_a_bad_image_waits_with_its_reason(self):
        self.sim.ctl('POST', '/coreweave/image', {'image': 'registry.example/*', 'fail': 'ErrImagePull'})
        self.core.create_namespaced_pod(NS, self.pod('img-1'))
        w = self.until(lambda t, p: p.status.container_statuses and p.status.container_statuses[0].state.waiting.reason !=
                       'ContainerCreating', self.core.list_namespaced_pod, NS, field_selector='metadata.name=img-1')
        self.assertEqual(w.status.container_statuses[0].state.waiting.reason, 'ErrImagePull')
        self.sim.ctl('POST', '/coreweave/image', {'image': 'registry.example/*', 'fail': None})
        self.running('img-1')
        self.core.delete_namespaced_pod('img-1', NS, grace_period_seconds=0)


class Plain(Base):
    """Any Kubernetes with GPU nodes: no NodePools, the nodes are simply there."""
    name = 'plain'

    def test_nodes_are_listed_and_a_pod_finds_its_gpus(self):
        gpus = {n.metadata.labels.get('nvidia.com/gpu.product'): n.status.allocatable.get('nvidia.com/gpu')
                for n in self.core.list_node().items}
        self.assertEqual(gpus, {'NVIDIA-H100-80GB-HBM3': '8', 'NVIDIA-L40S': '4', None: None})
        body = self.pod('plain-1', nodeSelector={'nvidia.com/gpu.product': 'NVIDIA-L40S'})
        body['spec']['containers'][0]['resources'] = {'limits': {'nvidia.com/gpu': '4'}}
        self.core.create_namespaced_pod(NS, body)
        self.assertEqual(self.running('plain-1').spec.node_name, 'gpu-l40s-1')
        body['metadata']['name'] = 'plain-2'
        self.core.create_namespaced_pod(NS, body)
        why = self.until(lambda t, p: p.status.conditions, self.core.list_namespaced_pod, NS,
                         field_selector='metadata.name=plain-2').status.conditions[0].message
        self.assertIn('1 Insufficient nvidia.com/gpu', why)
        for n in ('plain-1', 'plain-2'):
            self.core.delete_namespaced_pod(n, NS, grace_period_seconds=0)

    def test_there_are_no_node_pools(self):
        with self.assertRaises(ApiException) as got:
            self.custom.list_cluster_custom_object(*GROUP, 'nodepools')
        self.assertEqual((got.exception.status, got.exception.body), (404, '404 page not found\n'))

    def test_discovery_tells_the_kinds(self):
        self.assertEqual(client.VersionApi(self.api).get_code().major, '1')
        self.assertEqual(client.CoreApi(self.api).get_api_versions().versions, ['v1'])
        self.assertIn('authentication.k8s.io', [g.name for g in client.ApisApi(self.api).get_api_versions().groups])
        pods = [r for r in self.core.get_api_resources().resources if r.name == 'pods'][0]
        self.assertLessEqual({'create', 'delete', 'get', 'list', 'watch'}, set(pods.verbs))

    def test_the_comparison_with_the_models_finds_what_is_wrong(self):
        self.assertEqual(check({'kind': 'Pod', 'spec': {'containers': [{'nam': 'x'}], 'priority': '1'}}),
                         ['Pod.spec.containers[0].nam: not in V1Container', 'Pod.spec.containers[0].name: required in V1Container',
                          "Pod.spec.priority: '1' is no int"])

    def test_the_issuers_keys_are_public(self):
        _, _, text = http('GET', self.cluster['server'] + '/.well-known/openid-configuration')
        doc = json.loads(text)
        _, _, keys = http('GET', doc['jwks_uri'])
        self.assertEqual((doc['issuer'], json.loads(keys)['keys'][0]['alg']), (self.cluster['server'], 'RS256'))
        self.assertTrue(re.fullmatch('[A-Za-z0-9_-]+', json.loads(keys)['keys'][0]['n']))


def tearDownModule():
    # The comparison with the models saw every kind that this server has.
    missing = (set(MODELS) | {'NodePool'}) - SEEN - {'APIGroup', 'Event', 'Namespace', 'ServiceAccount',
                                                                     'ResourceQuota', 'ServiceAccountList', 'NamespaceList'}
    assert not missing, missing


if __name__ == '__main__':
    unittest.main(verbosity=2)
