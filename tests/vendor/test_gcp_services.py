#!/usr/bin/env python3
"""Google's own Python libraries drive cloudsim's Google credentials, metadata server and Cloud Storage, its limits and
refusals. Every answer is compared with Google's discovery documents: no unknown field, right types, known enum values.
argv[1] is the program."""
import base64
import hashlib
import json
import os
import time
import unittest
import urllib.parse
import uuid

import gcp_base  # first: it says when the libraries are not there  # noqa: F401
import google.auth
import google.auth._helpers
import google.auth.impersonated_credentials
import googleapiclient
from gcp_base import (Base, IMAGE, REGION, SCOPE, ZONE, ClientOptions, compute_v1, exceptions, http, service_account,
                      storage)
from google.auth.transport.requests import Request


class Credentials(Base):
    def test_an_expired_token_is_refused_and_the_client_gets_a_new_one(self):
        from google.auth.transport.requests import AuthorizedSession
        s = AuthorizedSession(service_account.Credentials.from_service_account_file(self.gcp['key_file'], scopes=SCOPE))
        path = self.url + '/compute/v1/projects/%s/zones' % self.project
        self.assertEqual(s.get(path).status_code, 200)
        old = s.credentials.token
        self.assertGreater(self.sim.ctl('POST', '/gcp/credentials', {'action': 'expire'})['expired'], 0)
        status, _, text = http('GET', path, headers={'Authorization': 'Bearer ' + old})
        e = json.loads(text)['error']
        self.assertEqual((status, e['details'][0]['reason'], e['errors'][0]['reason']),
                         (401, 'ACCESS_TOKEN_EXPIRED', 'authError'))
        self.assertEqual(s.get(path).status_code, 200)
        self.assertNotEqual(s.credentials.token, old)

    def test_without_a_token_and_with_too_small_a_scope(self):
        status, headers, text = http('GET', self.url + '/compute/v1/projects/%s/zones' % self.project)
        e = json.loads(text)['error']
        self.assertEqual((status, e['status'], e['errors'][0]['reason']), (401, 'UNAUTHENTICATED', 'required'))
        self.assertIn('Bearer', headers['WWW-Authenticate'])
        small = service_account.Credentials.from_service_account_file(
            self.gcp['key_file'], scopes=['https://www.googleapis.com/auth/devstorage.read_only'])
        c = compute_v1.ZonesClient(credentials=small, client_options=ClientOptions(api_endpoint=self.url), transport='rest')
        with self.assertRaises(exceptions.Forbidden):
            list(c.list(project=self.project))

    def test_a_foreign_account_is_refused(self):
        with open(self.gcp['key_file']) as f:
            key = json.load(f)
        for change, word in (({'client_email': 'other@x.iam.gserviceaccount.com'}, 'account not found'),):
            c = service_account.Credentials.from_service_account_info(dict(key, **change), scopes=SCOPE)
            with self.assertRaisesRegex(google.auth.exceptions.RefreshError, word):
                c.refresh(Request())

    def test_a_jwt_of_the_key_stands_for_a_token(self):
        from google.auth import jwt
        own = jwt.Credentials.from_service_account_file(self.gcp['key_file'], audience='https://compute.googleapis.com/')
        headers = {}
        own.before_request(Request(), 'GET', self.url, headers)
        status, _, _ = http('GET', self.url + '/compute/v1/projects/%s/zones' % self.project, headers=headers)
        self.assertEqual(status, 200)

    def test_federation_gives_a_token_for_the_service_account(self):
        from google.auth import identity_pool
        token_file = os.path.join(self.sim.dir, 'oidc-token')
        with open(token_file, 'w') as f:
            f.write('eyJhbGciOiJSUzI1NiJ9.e30.c2ln')
        c = identity_pool.Credentials.from_info({
            'type': 'external_account', 'subject_token_type': 'urn:ietf:params:oauth:token-type:jwt',
            'audience': '//iam.googleapis.com/projects/415104041262/locations/global/workloadIdentityPools/p/providers/k',
            'token_url': self.url + '/v1/token', 'credential_source': {'file': token_file},
            'service_account_impersonation_url':
                self.url + '/v1/projects/-/serviceAccounts/%s:generateAccessToken' % self.gcp['email']}, scopes=SCOPE)
        c.refresh(Request())
        status, _, _ = http('GET', self.url + '/compute/v1/projects/%s/zones' % self.project,
                            headers={'Authorization': 'Bearer ' + c.token})
        self.assertEqual(status, 200)


class Impersonation(Base):
    def test_a_token_lives_as_long_as_is_asked_and_no_longer(self):
        self.creds.refresh(Request())
        target = self.gcp['node_email']
        path = self.url + '/v1/projects/-/serviceAccounts/%s:generateAccessToken' % target
        short = google.auth.impersonated_credentials.Credentials(self.creds, target, SCOPE, lifetime=600,
                                                                 iam_endpoint_override=path)
        short.refresh(Request())
        left = (short.expiry - google.auth._helpers.utcnow()).total_seconds()
        self.assertTrue(500 < left <= 600, left)
        for lifetime in ('43201s', '10', 'xs', '0s'):
            status, _, _ = http('POST', path, json.dumps({'scope': SCOPE, 'lifetime': lifetime}).encode(),
                                {'Authorization': 'Bearer ' + self.creds.token, 'Content-Type': 'application/json'})
            self.assertEqual(status, 400, lifetime)


class Rotation(Base):
    def test_an_old_key_is_refused_and_the_new_one_taken(self):
        with open(self.gcp['key_file']) as f:
            key = json.load(f)
        self.sim.ctl('POST', '/gcp/credentials', {'action': 'rotate'})
        old = service_account.Credentials.from_service_account_info(key, scopes=SCOPE)
        with self.assertRaisesRegex(google.auth.exceptions.RefreshError, 'invalid_grant'):
            old.refresh(Request())
        new = service_account.Credentials.from_service_account_file(self.gcp['key_file'], scopes=SCOPE)
        new.refresh(Request())
        self.assertTrue(new.token)


class Metadata(Base):
    def setUp(self):
        name = 'meta-%s' % hashlib.sha256(self.id().encode()).hexdigest()[:8]
        self.vm = self.launch(name, script='#!/bin/sh\necho hi\n')
        self.base = 'http://127.0.0.1:%d/%d/computeMetadata/v1/' % (self.sim.info['imds_port'], self.vm.id)

    def get(self, path, timeout=30, **headers):
        status, h, text = http('GET', self.base + path, headers=headers or {'Metadata-Flavor': 'Google'}, timeout=timeout)
        return status, h, text.decode()

    def test_googles_library_takes_a_token_and_an_identity_from_it(self):
        from google.auth.compute_engine import _metadata
        root = self.base.split('//')[1].rsplit('/computeMetadata', 1)[0]
        info = _metadata.get(Request(), 'instance/service-accounts/default/', params={'recursive': 'true'},
                             root=self.base) if hasattr(_metadata, 'get') else None
        self.assertEqual(info['email'], self.gcp['node_email'])
        token = _metadata.get(Request(), 'instance/service-accounts/default/token', root=self.base)
        status, _, _ = http('GET', self.url + '/compute/v1/projects/%s/zones' % self.project,
                            headers={'Authorization': 'Bearer ' + token['access_token']})
        self.assertEqual(status, 200, root)
        jwt = _metadata.get(Request(), 'instance/service-accounts/default/identity',
                            params={'audience': 'broker', 'format': 'full'}, root=self.base)
        certs = json.loads(http('GET', self.url + '/oauth2/v3/certs')[2])['keys'][0]
        claims = self.verified(jwt, certs)
        self.assertEqual((claims['aud'], claims['google']['compute_engine']['instance_id'],
                          claims['google']['compute_engine']['zone']), ('broker', str(self.vm.id), ZONE))

    def verified(self, jwt, key):
        from cryptography.hazmat.primitives.asymmetric import padding, rsa
        from cryptography.hazmat.primitives import hashes

        def raw(t):
            return base64.urlsafe_b64decode(t + '=' * (-len(t) % 4))
        n, e = (int.from_bytes(raw(key[k]), 'big') for k in 'ne')
        head, body, sig = jwt.split('.')
        self.assertEqual(json.loads(raw(head))['kid'], key['kid'])
        rsa.RSAPublicNumbers(e, n).public_key().verify(raw(sig), (head + '.' + body).encode(), padding.PKCS1v15(), hashes.SHA256())
        return json.loads(raw(body))

    def test_the_header_is_needed_both_ways_and_a_proxy_is_refused(self):
        status, h, text = self.get('instance/name')
        self.assertEqual((status, h['Metadata-Flavor'], text), (200, 'Google', self.vm.name))
        self.assertEqual(self.get('instance/name', **{'X-Other': 'x'})[0], 403)
        self.assertEqual(self.get('instance/name', **{'Metadata-Flavor': 'Google', 'X-Forwarded-For': '1.2.3.4'})[0], 403)
        self.assertEqual(self.get('instance/nothing')[0], 404)
        self.assertEqual(self.get('instance/zone')[2], 'projects/415104041262/zones/us-central1-a')
        self.assertEqual(self.get('instance/attributes/startup-script')[2], '#!/bin/sh\necho hi\n')

    def test_a_waiting_request_is_answered_by_the_preemption(self):
        import threading
        status, h, text = self.get('instance/preempted')
        self.assertEqual((status, text), (200, 'FALSE'))
        got = []
        q = 'instance/preempted?wait_for_change=true&timeout_sec=20&last_etag=' + h['ETag']
        t = threading.Thread(target=lambda: got.append(self.get(q)))
        t.start()
        self.sim.ctl('POST', '/reclaim', {'instance': str(self.vm.id), 'notice_s': 5})
        t.join(15)
        self.assertEqual((got[0][0], got[0][2]), (200, 'TRUE'))
        self.assertNotEqual(got[0][1]['ETag'], h['ETag'])
        # a change between two questions is not lost
        self.assertEqual(self.get(q)[2], 'TRUE')

    def test_a_waiting_request_ends_with_the_same_etag_when_its_time_is_over(self):
        _, h, _ = self.get('instance/maintenance-event')
        start = time.monotonic()
        _, h2, text = self.get('instance/maintenance-event?wait_for_change=true&timeout_sec=1&last_etag=' + h['ETag'])
        self.assertEqual((text, h2['ETag']), ('NONE', h['ETag']))
        self.assertGreater(time.monotonic() - start, 0.8)

    def test_maintenance_is_told(self):
        self.sim.ctl('POST', '/maintenance', {'instance': str(self.vm.id)})
        self.assertEqual(self.get('instance/maintenance-event')[2], 'TERMINATE_ON_HOST_MAINTENANCE')


class Storage(Base):
    def setUp(self):
        self.client = storage.Client(project=self.project, credentials=self.creds,
                                     client_options=ClientOptions(api_endpoint=self.url))
        name = 'ckpt-' + hashlib.sha256(self.id().encode()).hexdigest()[:10]
        self.bucket = self.client.create_bucket(name, location='us-central1')

    def test_objects_are_put_read_in_ranges_listed_and_deleted(self):
        for name in ('a/1', 'a/2', 'b/1'):
            self.bucket.blob(name).upload_from_string(b'hello ' + name.encode(), content_type='text/plain')
        blob = self.bucket.get_blob('a/1')
        self.assertEqual((blob.size, blob.content_type), (9, 'text/plain'))
        self.assertEqual(blob.download_as_bytes(), b'hello a/1')
        self.assertEqual(blob.download_as_bytes(start=6), b'a/1')
        self.assertEqual([b.name for b in self.client.list_blobs(self.bucket, prefix='a/')], ['a/1', 'a/2'])
        it = self.client.list_blobs(self.bucket, delimiter='/')
        self.assertEqual((list(it), sorted(it.prefixes)), ([], ['a/', 'b/']))
        self.assertEqual(len(list(self.client.list_blobs(self.bucket, page_size=1))), 3)
        blob.delete()
        self.assertIsNone(self.bucket.get_blob('a/1'))
        with self.assertRaises(exceptions.NotFound):
            blob.download_as_bytes()

    def test_conditions_on_metadata_and_lists_by_offset(self):
        for name in ('a/1', 'a/2', 'b/1'):
            self.bucket.blob(name).upload_from_string(b'x')
        blob = self.bucket.get_blob('a/1')
        blob.metadata = {'epoch': '7'}
        blob.patch(if_metageneration_match=1)
        for call in (lambda: blob.upload_from_string(b'y', if_metageneration_match=1), lambda: blob.delete(if_metageneration_match=1),
                     lambda: blob.patch(if_metageneration_match=1), lambda: blob.upload_from_string(b'y', if_generation_not_match=blob.generation)):
            with self.assertRaises(exceptions.PreconditionFailed):
                call()
        self.assertEqual(blob.download_as_bytes(if_metageneration_match=2), b'x')
        names = lambda **kw: [b.name for b in self.client.list_blobs(self.bucket, **kw)]
        self.assertEqual(names(start_offset='a/2'), ['a/2', 'b/1'])
        self.assertEqual(names(end_offset='b'), ['a/1', 'a/2'])
        self.assertEqual((names(match_glob='*/1'), names(match_glob='*'), names(match_glob='**')), (['a/1', 'b/1'], [], ['a/1', 'a/2', 'b/1']))

    def test_the_callers_permissions_on_a_bucket_are_listed(self):
        asked = ['storage.objects.create', 'storage.objects.get', 'storage.buckets.setIamPolicy']
        self.assertEqual(self.bucket.test_iam_permissions(asked), asked[:2])
        with self.assertRaises(exceptions.NotFound):
            self.client.bucket('never-made').test_iam_permissions(asked)

    def test_a_wrong_hash_refuses_the_upload(self):
        for data, ok in ((b'right', True), (b'wrong', False)):
            blob = self.bucket.blob('hashed')
            blob.md5_hash = base64.b64encode(hashlib.md5(b'right').digest()).decode()
            if ok:
                blob.upload_from_string(data)
                continue
            with self.assertRaises(exceptions.BadRequest):
                blob.upload_from_string(data)
        self.assertEqual(self.bucket.blob('hashed').download_as_bytes(), b'right')

    def test_a_folder_is_told_once_over_all_pages(self):
        for name in ('a/1', 'a/2', 'a/3', 'b'):
            self.bucket.blob(name).upload_from_string(name)
        pages = [(sorted(p.prefixes), [b.name for b in p])
                 for p in self.client.list_blobs(self.bucket, delimiter='/', page_size=1).pages]
        self.assertEqual(pages, [(['a/'], []), ([], ['b'])])

    def test_a_generation_is_a_condition(self):
        blob = self.bucket.blob('latest')
        blob.upload_from_string(b'1', if_generation_match=0)
        with self.assertRaises(exceptions.PreconditionFailed):
            self.bucket.blob('latest').upload_from_string(b'2', if_generation_match=0)
        self.bucket.blob('latest').upload_from_string(b'3', if_generation_match=blob.generation)

    def test_a_large_upload_is_resumable_and_keeps_its_sum(self):
        data = os.urandom(3 * 1024 * 1024 + 17)
        blob = self.bucket.blob('big', chunk_size=1024 * 1024)
        import io
        blob.upload_from_file(io.BytesIO(data), size=len(data), checksum='crc32c')
        self.assertEqual(self.bucket.blob('big').download_as_bytes(checksum='crc32c'), data)
        self.assertEqual(blob.md5_hash, base64.b64encode(hashlib.md5(data).digest()).decode())

    def session(self, name):
        return self.bucket.blob(name).create_resumable_upload_session(content_type='application/x-tar')

    def put(self, url, data, range):
        return http('PUT', url, data, {'Content-Range': range})

    def test_a_session_says_how_much_is_there(self):
        url, k = self.session('chunks'), 262144
        self.assertIn('gcp/upload/%s/chunks' % self.bucket.name, self.sim.ctl('GET', '/books')['left'])
        status, h, _ = self.put(url, b'', 'bytes */*')
        self.assertEqual((status, h['Range']), (308, None))
        status, _, text = self.put(url, b'x' * 1000, 'bytes 0-999/*')
        self.assertEqual(status, 400, text)
        status, h, _ = self.put(url, b'x' * (k + 500), 'bytes 0-%d/*' % (k + 499))
        self.assertEqual((status, h['Range']), (308, 'bytes=0-%d' % (k - 1)))
        self.assertEqual(self.put(url, b'x' * k, 'bytes %d-%d/*' % (2 * k, 3 * k - 1))[0], 400)
        self.config(keep_bytes=1000)
        status, h, _ = self.put(url, b'y' * k, 'bytes %d-%d/*' % (k, 2 * k - 1))
        self.assertEqual((status, h['Range']), (308, 'bytes=0-%d' % (k + 999)))
        self.config(keep_bytes=0)
        rest = b'y' * (k - 1000) + b'end'
        status, h, text = self.put(url, rest, 'bytes %d-%d/%d' % (k + 1000, 2 * k + 2, 2 * k + 3))
        self.assertEqual((status, json.loads(text)['size']), (200, str(2 * k + 3)))
        self.assertEqual(self.bucket.blob('chunks').download_as_bytes(), b'x' * k + b'y' * k + b'end')
        self.assertEqual(self.put(url, b'', 'bytes */*')[0], 404)
        self.assertEqual([x for x in self.sim.ctl('GET', '/books')['left'] if 'chunks' in x], [])

    def signed(self, method, name, **kw):
        return self.bucket.blob(name).generate_signed_url(version='v4', expiration=600, method=method,
                                                          api_access_endpoint=self.url, **kw)

    def test_signed_urls_are_checked_to_the_last_byte(self):
        put = self.signed('PUT', 'dir/one two.bin', content_type='application/x-tar')
        h = {'Content-Type': 'application/x-tar'}
        self.assertEqual(http('PUT', put, b'data', h)[0], 200)
        get = self.signed('GET', 'dir/one two.bin')
        status, headers, text = http('GET', get)
        self.assertEqual((status, text), (200, b'data'))
        self.assertIn('crc32c=', headers['X-Goog-Hash'])
        self.assertEqual(http('PUT', get, b'x')[0], 403)
        self.assertEqual(http('GET', get.replace('one%20two', 'one%20too'))[0], 403)
        self.assertEqual(http('PUT', put, b'x', {'Content-Type': 'text/plain'})[0], 403)
        self.assertEqual(http('PUT', put, b'x', dict(h, **{'x-goog-meta-a': 'b'}))[0], 403)
        cut = get[:-1] + ('0' if get[-1] != '0' else '1')
        status, _, text = http('GET', cut)
        self.assertEqual((status, b'<Code>SignatureDoesNotMatch</Code>' in text), (403, True))
        self.sim.ctl('POST', '/fault', {'match': {'service': 'storage'}, 'kind': 'clock_skew', 'ms': 3600000})
        status, _, text = http('GET', get)
        self.assertEqual((status, b'ExpiredToken' in text), (400, True))

    def test_a_signed_url_starts_a_resumable_upload(self):
        url = self.signed('POST', 'late', headers={'x-goog-resumable': 'start'}, content_type='application/x-tar')
        h = {'x-goog-resumable': 'start', 'Content-Type': 'application/x-tar'}
        status, headers, text = http('POST', url, b'', h)
        self.assertEqual((status, text), (201, b''))
        status, _, text = self.put(headers['Location'], b'abc', 'bytes 0-2/3')
        self.assertEqual(status, 200, text)
        self.assertEqual(self.bucket.blob('late').download_as_bytes(), b'abc')


class Faults(Base):
    options = ('--seed', '22', '--boot-ms', '60', '--terminate-ms', '60')

    def test_the_rate_limit_is_a_403_of_its_own_reason(self):
        self.config(rate_per_min=3)
        try:
            with self.assertRaises(exceptions.Forbidden) as e:
                for _ in range(10):
                    self.projects.get(project=self.project)
            self.assertEqual(e.exception.errors[0]['reason'], 'rateLimitExceeded')
        finally:
            self.config(rate_per_min=1500)

    def test_a_backend_error_is_retried_by_the_vendors_client_or_told(self):
        self.sim.ctl('POST', '/fault', {'match': {'service': 'compute', 'action': 'instances.insert'}, 'kind': 'status',
                                        'status': 503})
        with self.assertRaises(exceptions.ServiceUnavailable):
            self.insert('fault-1')
        rid = str(uuid.uuid4())
        self.sim.ctl('POST', '/fault', {'match': {'action': 'instances.insert'}, 'kind': 'status', 'status': 500, 'after': True})
        with self.assertRaises(exceptions.InternalServerError):
            self.insert('fault-2', request_id=rid)
        self.assertEqual(list(self.done(self.insert('fault-2', request_id=rid)).error.errors), [])

    def test_an_unknown_field_and_an_unknown_parameter_are_refused(self):
        self.creds.refresh(Request())
        h = {'Authorization': 'Bearer ' + self.creds.token, 'Content-Type': 'application/json'}
        base = self.url + '/compute/v1/projects/%s/zones/%s/instances' % (self.project, ZONE)
        for body, word in (({'name': 'x', 'machinetype': 'y'}, b'machinetype'), ({'disks': {}}, b'disks'),
                           ({'scheduling': {'automaticRestart': 3}}, b'scheduling.automaticRestart')):
            status, _, text = http('POST', base, json.dumps(body).encode(), h)
            self.assertEqual((status, word in text), (400, True), text)
        self.assertEqual(http('POST', base, b'{', h)[0], 400)
        self.assertEqual(http('GET', base + '?maxresults=3', headers=h)[0], 400)
        self.assertEqual(http('GET', base + '?maxResults=501', headers=h)[0], 400)
        self.assertEqual(http('GET', self.url + '/compute/v1/projects/%s/nothing' % self.project, headers=h)[0], 404)


class Documents(Base):
    """Every answer against the discovery documents."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        Documents.load(cls)

    @staticmethod
    def load(cls):
        folder = os.path.join(os.path.dirname(googleapiclient.__file__), 'discovery_cache', 'documents')
        cls.docs = {}
        for name in ('compute.v1', 'cloudbilling.v1', 'storage.v1', 'iamcredentials.v1', 'sts.v1'):
            with open(os.path.join(folder, name + '.json')) as f:
                cls.docs[name] = json.load(f)
        cls.creds.refresh(Request())

    def find(self, doc, method):
        part = self.docs[doc]
        *path, last = method.split('.')
        for p in path:
            part = part['resources'][p]
        return part['methods'][last]

    def check(self, doc, schema, value, where):
        if '$ref' in schema:
            schema = self.docs[doc]['schemas'][schema['$ref']]
        kind = schema.get('type', 'any')
        if kind == 'any':
            return
        if kind == 'object':
            self.assertIsInstance(value, dict, where)
            if 'properties' not in schema:
                for k, v in value.items():
                    self.check(doc, schema['additionalProperties'], v, '%s[%s]' % (where, k))
                return
            for k, v in value.items():
                self.assertIn(k, schema['properties'], where)
                self.check(doc, schema['properties'][k], v, '%s.%s' % (where, k))
            if schema['properties'].get('kind', {}).get('default'):
                self.assertEqual(value.get('kind'), schema['properties']['kind']['default'], where)
        elif kind == 'array':
            self.assertIsInstance(value, list, where)
            for k, v in enumerate(value):
                self.check(doc, schema['items'], v, '%s[%d]' % (where, k))
        elif kind == 'string':
            self.assertIsInstance(value, str, where)
            if schema.get('format') in ('int64', 'uint64'):
                int(value)
            if schema.get('format') in ('google-datetime', 'date-time'):
                self.assertRegex(value, r'^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[-+]\d\d:\d\d)$', where)
            if schema.get('enum'):
                self.assertIn(value, schema['enum'], where)
        elif kind == 'integer':
            self.assertTrue(isinstance(value, int) and not isinstance(value, bool), where)
        elif kind == 'number':
            self.assertTrue(isinstance(value, (int, float)) and not isinstance(value, bool), where)
        elif kind == 'boolean':
            self.assertIsInstance(value, bool, where)

    def call(self, doc, method, path_args=None, query=None, body=None, form=None, expect=200):
        m = self.find(doc, method)
        path = m.get('flatPath', m['path']) if doc not in ('compute.v1', 'storage.v1') else m['path']
        base = {'compute.v1': '/compute/v1/', 'storage.v1': '/storage/v1/'}.get(doc, '/')
        if path.startswith('projects/') and doc == 'compute.v1':
            base = '/compute/v1/'
        for k, v in (path_args or {}).items():
            path = path.replace('{%s}' % k, urllib.parse.quote(v, safe=''))
        url = self.url + base + path + ('?' + urllib.parse.urlencode(query) if query else '')
        for k in (query or {}):
            self.assertIn(k, m.get('parameters', {}), 'the document knows the parameter')
        headers = {'Authorization': 'Bearer ' + self.creds.token}
        data = None
        if body is not None:
            data, headers['Content-Type'] = json.dumps(body).encode(), 'application/json'
        status, _, text = http(m['httpMethod'], url, data, headers)
        self.assertEqual(status, expect, (method, text))
        if expect >= 300 or not text:
            return json.loads(text) if text else None
        value = json.loads(text)
        if 'response' in m:
            self.check(doc, m['response'], value, method)
        return value

    def compute(self, method, query=None, body=None, expect=200, **args):
        return self.call('compute.v1', method, dict(args, project=self.project), query, body, expect=expect)

    def test_compute(self):
        vm = self.launch('doc-1')
        self.compute('instances.get', zone=ZONE, instance='doc-1')
        self.compute('instances.list', zone=ZONE)
        self.compute('instances.aggregatedList', query={'includeAllScopes': 'true', 'maxResults': 100})
        self.compute('instances.setLabels', zone=ZONE, instance='doc-1',
                     body={'labels': {'x': 'y'}, 'labelFingerprint': vm.label_fingerprint})
        self.compute('instances.testIamPermissions', zone=ZONE, resource='doc-1',
                     body={'permissions': ['compute.instances.delete', 'storage.objects.get']})
        self.compute('disks.get', zone=ZONE, disk='doc-1')
        self.compute('disks.list', zone=ZONE)
        self.compute('disks.aggregatedList')
        for m in ('zones', 'regions'):
            self.compute(m + '.list')
        self.compute('zones.get', zone=ZONE)
        self.compute('regions.get', region=REGION)
        self.compute('projects.get')
        self.compute('machineTypes.aggregatedList')
        self.compute('machineTypes.list', zone=ZONE)
        self.compute('machineTypes.get', zone=ZONE, machineType='a3-highgpu-8g')
        self.compute('acceleratorTypes.aggregatedList')
        self.compute('acceleratorTypes.list', zone=ZONE)
        self.call('compute.v1', 'images.getFromFamily', {'project': 'debian-cloud', 'family': 'debian-12'})
        self.call('compute.v1', 'images.get', {'project': 'debian-cloud', 'image': 'debian-12-bookworm-v20261014'})
        op = self.compute('instances.delete', zone=ZONE, instance='doc-1', query={'requestId': str(uuid.uuid4())})
        self.compute('zoneOperations.get', zone=ZONE, operation=op['name'])
        self.compute('zoneOperations.wait', zone=ZONE, operation=op['id'])
        self.compute('instances.get', zone=ZONE, instance='doc-1', expect=404)

    def test_operations_of_all_kinds(self):
        self.sim.ctl('POST', '/stock', {'pool': 'gcp/us-central1/us-central1-a/g2-standard-16/spot', 'count': 0})
        self.done(self.insert('doc-none', type='g2-standard-16'))
        vm = self.launch('doc-pre')
        self.sim.ctl('POST', '/reclaim', {'instance': str(vm.id), 'notice_s': 0})
        self.sim.wait('terminated', token='doc-pre')
        body = {'count': '2', 'minCount': '1', 'namePattern': 'doc-bulk-#', 'instanceProperties': {
            'machineType': 'g2-standard-4', 'scheduling': {'provisioningModel': 'SPOT', 'automaticRestart': False},
            'disks': [{'boot': True, 'autoDelete': True, 'initializeParams': {'sourceImage': IMAGE}}],
            'networkInterfaces': [{'network': 'global/networks/default'}]}}
        op = self.compute('regionInstances.bulkInsert', region=REGION, body=body)
        self.compute('regionOperations.wait', region=REGION, operation=op['name'])
        self.compute('regionOperations.list', region=REGION)
        self.compute('zoneOperations.list', zone=ZONE)
        self.compute('globalOperations.aggregatedList', query={'orderBy': 'creationTimestamp desc'})
        self.compute('advice.capacityHistory', region=REGION, body={
            'instanceProperties': {'machineType': 'a2-highgpu-1g', 'scheduling': {'provisioningModel': 'SPOT'}},
            'types': ['PREEMPTION', 'PRICE']})
        self.compute('advice.capacity', region=REGION, body={
            'size': 2, 'instanceProperties': {'scheduling': {'provisioningModel': 'SPOT'}},
            'distributionPolicy': {'targetShape': 'ANY', 'zones': [{'zone': 'zones/' + ZONE}]},
            'instanceFlexibilityPolicy': {'instanceSelections': {'s': {'machineTypes': ['g2-standard-12']}}}})

    def test_billing(self):
        self.call('cloudbilling.v1', 'services.list')
        self.call('cloudbilling.v1', 'services.skus.list', {'servicesId': '6F81-5844-456A'}, {'pageSize': 5000})

    def test_storage(self):
        name = 'doc-bucket-1'
        self.call('storage.v1', 'buckets.insert', query={'project': self.project}, body={'name': name, 'location': 'EU'})
        self.call('storage.v1', 'buckets.list', query={'project': self.project})
        self.call('storage.v1', 'buckets.get', {'bucket': name})
        storage.Client(project=self.project, credentials=self.creds, client_options=ClientOptions(
            api_endpoint=self.url)).bucket(name).blob('a/b').upload_from_string(b'1')
        self.call('storage.v1', 'objects.get', {'bucket': name, 'object': 'a/b'})
        self.call('storage.v1', 'objects.list', {'bucket': name}, {'delimiter': '/'})
        self.call('storage.v1', 'objects.compose', {'destinationBucket': name, 'destinationObject': 'c'},
                  body={'sourceObjects': [{'name': 'a/b'}, {'name': 'a/b'}]})
        self.call('storage.v1', 'objects.delete', {'bucket': name, 'object': 'c'}, expect=204)

    def test_iam(self):
        sa = self.gcp['email']
        got = self.call('iamcredentials.v1', 'projects.serviceAccounts.generateAccessToken',
                        {'projectsId': '-', 'serviceAccountsId': sa}, body={'scope': SCOPE, 'lifetime': '3600s'})
        self.assertTrue(got['accessToken'])
        self.call('iamcredentials.v1', 'projects.serviceAccounts.signBlob',
                  {'projectsId': '-', 'serviceAccountsId': sa}, body={'payload': base64.b64encode(b'x').decode()})


if __name__ == '__main__':
    unittest.main()
