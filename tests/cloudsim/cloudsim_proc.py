"""Starts cloudsim for a test and speaks to it: control API, Lambda, and AWS. A small signer of its own keeps the
emulator's checks independent of boto3."""
import datetime
import hashlib
import hmac
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
import xml.etree.ElementTree as ET

EC2_NS = '{http://ec2.amazonaws.com/doc/2016-11-15/}'
UBUNTU = '/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id'


def http(method, url, body=None, headers=None, timeout=60):
    """(status, headers, body bytes); no exception for 4xx and 5xx."""
    req = urllib.request.Request(url, data=body, method=method, headers=headers or {})
    try:
        with urllib.request.urlopen(req, timeout=timeout) as r:
            return r.status, r.headers, r.read()
    except urllib.error.HTTPError as e:
        return e.code, e.headers, e.read()


def sign(method, url, body, headers, key, secret, region, service, token=None, now=None):
    """Signature Version 4 by header. Returns the headers to send."""
    now = now or datetime.datetime.now(datetime.timezone.utc)
    stamp, day = now.strftime('%Y%m%dT%H%M%SZ'), now.strftime('%Y%m%d')
    u = urllib.parse.urlsplit(url)
    h = {k.lower(): v for k, v in headers.items()}
    h.update({'host': u.netloc, 'x-amz-date': stamp})
    if token:
        h['x-amz-security-token'] = token
    digest = hashlib.sha256(body).hexdigest()
    if service == 's3':
        h['x-amz-content-sha256'] = digest
    names = sorted(h)
    query = '&'.join(sorted('%s=%s' % (urllib.parse.quote(k, '-_.~'), urllib.parse.quote(v, '-_.~'))
                            for k, v in urllib.parse.parse_qsl(u.query, keep_blank_values=True)))
    canonical = '\n'.join([method, u.path or '/', query, ''.join('%s:%s\n' % (n, h[n].strip()) for n in names),
                           ';'.join(names), digest])
    scope = '%s/%s/%s/aws4_request' % (day, region, service)
    text = 'AWS4-HMAC-SHA256\n%s\n%s\n%s' % (stamp, scope, hashlib.sha256(canonical.encode()).hexdigest())
    k = ('AWS4' + secret).encode()
    for part in (day, region, service, 'aws4_request'):
        k = hmac.new(k, part.encode(), hashlib.sha256).digest()
    sig = hmac.new(k, text.encode(), hashlib.sha256).hexdigest()
    h['authorization'] = 'AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=%s, Signature=%s' % (
        key, scope, ';'.join(names), sig)
    del h['host']
    return h


class Cloudsim:
    def __init__(self, program, *options):
        self.dir = tempfile.mkdtemp(prefix='cloudsim-')
        self.proc = subprocess.Popen([program, '--dir', self.dir, *options])
        ready = os.path.join(self.dir, 'cloudsim.json')
        end = time.monotonic() + 60
        while not os.path.exists(ready):
            if self.proc.poll() is not None or time.monotonic() > end:
                raise RuntimeError('cloudsim did not start')
            select.select([], [], [], 0.01)
        with open(ready) as f:
            self.info = json.load(f)
        self.url = self.info['urls']['aws']
        self.control = self.info['urls']['control']
        self.aws = self.info['credentials']['aws']

    def stop(self):
        self.proc.terminate()
        code = self.proc.wait(30)
        shutil.rmtree(self.dir, ignore_errors=True)
        return code

    # ---- control ----------------------------------------------------------------------------

    def ctl(self, method, path, body=None, ok=True):
        status, _, text = http(method, self.control + path, None if body is None else json.dumps(body).encode())
        if ok and status >= 300:
            raise AssertionError('control %s %s: %d %s' % (method, path, status, text))
        return json.loads(text)

    def wait(self, event, timeout_ms=50000, **more):
        q = urllib.parse.urlencode(dict(more, event=event, timeout_ms=timeout_ms))
        got = self.ctl('GET', '/wait?' + q)
        if got['timeout']:
            raise AssertionError('no event %s %s: %s' % (event, more, got))
        return got['events']

    def state(self, instance):
        return [i for i in self.ctl('GET', '/state')['instances'] if i['id'] == instance][0]

    # ---- AWS --------------------------------------------------------------------------------

    def call(self, service, body, headers=None, region='us-east-1', key=None, secret=None, token=None, now=None):
        h = sign('POST', self.url + '/', body, headers or {}, key or self.aws['access_key_id'],
                 secret or self.aws['secret_access_key'], region, service, token, now)
        return http('POST', self.url + '/', body, h)

    def ec2(self, action, region='us-east-1', params=None, **kw):
        """(status, root element)."""
        form = dict({'Action': action, 'Version': '2016-11-15'}, **(params or {}))
        body = urllib.parse.urlencode(form).encode()
        status, _, text = self.call('ec2', body, {'content-type': 'application/x-www-form-urlencoded; charset=utf-8'},
                                    region, **kw)
        return status, ET.fromstring(text)

    def image(self, region='us-east-1'):
        status, _, text = self.call('ssm', json.dumps({'Name': UBUNTU}).encode(), {
            'x-amz-target': 'AmazonSSM.GetParameter', 'content-type': 'application/x-amz-json-1.1'}, region)
        assert status == 200, text
        return json.loads(text)['Parameter']['Value']

    def run(self, token, region='us-east-1', zone='us-east-1a', type='p3.2xlarge', spot=True, **params):
        p = {'ImageId': self.image(region), 'InstanceType': type, 'MinCount': '1', 'MaxCount': '1', 'ClientToken': token}
        if zone:
            p['Placement.AvailabilityZone'] = zone
        if spot:
            p['InstanceMarketOptions.MarketType'] = 'spot'
        p.update(params)
        return self.ec2('RunInstances', region, p)

    def launched(self, token, **kw):
        status, x = self.run(token, **kw)
        assert status == 200, ET.tostring(x)
        return find(x, 'instanceId')

    # ---- Lambda -----------------------------------------------------------------------------

    def cloud(self, method, path, body=None, key=None):
        status, headers, text = http(method, self.info['urls']['lambda'] + path,
                                     None if body is None else json.dumps(body).encode(),
                                     {'Authorization': 'Bearer ' + (key or self.info['credentials']['lambda']['api_key']),
                                      'Content-Type': 'application/json'})
        return status, json.loads(text) if headers.get('Content-Type', '').startswith('application/json') else text


def find(x, tag):
    """Text of the first element of that name, namespace or not."""
    for e in x.iter():
        if e.tag.split('}')[-1] == tag:
            return e.text
    return None


def find_all(x, tag):
    return [e.text for e in x.iter() if e.tag.split('}')[-1] == tag]
