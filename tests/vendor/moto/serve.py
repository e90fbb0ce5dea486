"""Runs moto_server in this process on a free loopback port, and prepares an account in it. Then runs argv[1] (aws_moto)
against it, and the steps of an object store with argv[2] (../stores/store_client). From then on moto checks signatures
and permissions: by botocore's signer, with an IAM user's key. The exit status is 0 if both agree."""
import fnmatch
import io
import logging
import os
import re
import subprocess
import sys
import threading
import urllib.parse
import xml.etree.ElementTree as ET

import boto3
import botocore.auth
import botocore.awsrequest
import botocore.credentials
from moto import settings
from moto.ec2.models.instance_types import InstanceTypeOfferingBackend
from moto.iam.access_control import IAMRequestBase
from moto.moto_server.werkzeug_app import DomainDispatcherApplication
from moto.server import ThreadedMotoServer

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'stores'))
from stores import Client, exchange, http  # noqa: E402

REGION = 'us-east-1'
BUCKET = 'judged'
KEY = 'j1/a b+c/chunk'


def teach_wildcards():
    """EC2 takes * and ? in the values of every filter; moto compares them letter by letter in
    DescribeInstanceTypeOfferings, so that "g*" finds nothing. Without this the pools could not be judged."""
    literal = InstanceTypeOfferingBackend.matches_filters

    def matches(self, offering, filters, location_type):
        rest = {k: v for k, v in filters.items() if k != 'instance-type'}
        wanted = filters.get('instance-type')
        if wanted and not any(fnmatch.fnmatchcase(offering['InstanceType'], w) for w in wanted):
            return False
        return literal(self, offering, rest, location_type)

    InstanceTypeOfferingBackend.matches_filters = matches


SECRETS = {}


def presigned_by_botocore(environ):
    """moto does not look at presigned addresses: the signature of one is computed here with botocore's signer."""
    url = 'http://%s%s' % (environ['HTTP_HOST'], environ['REQUEST_URI'])
    query = dict(urllib.parse.parse_qsl(environ['QUERY_STRING'], keep_blank_values=True))
    key, _, region = query['X-Amz-Credential'].split('/')[:3]
    unsigned = re.sub(r'&?X-Amz-Signature=[0-9a-f]+', '', url)
    request = botocore.awsrequest.AWSRequest(environ['REQUEST_METHOD'], unsigned, headers={'host': environ['HTTP_HOST']})
    request.context['timestamp'] = query['X-Amz-Date']
    auth = botocore.auth.S3SigV4QueryAuth(botocore.credentials.Credentials(key, SECRETS.get(key, '')), 's3', region)
    text = auth.string_to_sign(request, auth.canonical_request(request))
    return key in SECRETS and query['X-Amz-SignedHeaders'] == 'host' and \
        auth.signature(text, request) == query['X-Amz-Signature']


def sign_what_came():
    """Keeps the bytes of a form's body, over which its signature is. The program moto encodes the parsed form anew,
    with + for a blank, and so refuses a client that writes %20. EC2 takes both."""
    local = threading.local()
    serve, init = DomainDispatcherApplication.__call__, IAMRequestBase.__init__

    def keep(self, environ, start_response):
        local.body = environ['wsgi.input'].read(int(environ.get('CONTENT_LENGTH') or 0))
        environ['wsgi.input'] = io.BytesIO(local.body)
        if 'X-Amz-Signature=' in environ.get('QUERY_STRING', '') and not presigned_by_botocore(environ):
            start_response('403 Forbidden', [('Content-Type', 'text/plain')])
            return [b'SignatureDoesNotMatch']
        return serve(self, environ, start_response)

    def from_bytes(self, *args, **kw):
        init(self, *args, **dict(kw, body=local.body))

    DomainDispatcherApplication.__call__ = keep
    IAMRequestBase.__init__ = from_bytes


def account(url):
    """An image to start from, and the key of a user with all permissions."""
    keys = {'aws_access_key_id': 'setup', 'aws_secret_access_key': 'setup'}
    ec2 = boto3.client('ec2', region_name=REGION, endpoint_url=url, **keys)
    iam = boto3.client('iam', region_name=REGION, endpoint_url=url, **keys)
    images = ec2.describe_images(Filters=[{'Name': 'architecture', 'Values': ['x86_64']}])['Images']
    boto3.client('s3', region_name=REGION, endpoint_url=url, **keys).create_bucket(Bucket=BUCKET)
    iam.create_user(UserName='spotbroker')
    iam.put_user_policy(UserName='spotbroker', PolicyName='all', PolicyDocument=(
        '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"*","Resource":"*"}]}'))
    key = iam.create_access_key(UserName='spotbroker')['AccessKey']
    return images[0]['ImageId'], key['AccessKeyId'], key['SecretAccessKey']


def objects(program, url, env):
    """Presigned addresses for a node without keys: put, get, delete, a multipart upload, the agent's own upload code."""
    client = Client(program, {k: env[k] for k in ('AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY')})
    failed = []

    def presign(method, query='', **other):
        return Client(program, dict(client.env, **other)).presign('aws', method, url, BUCKET, KEY, query)[0]

    def step(name, good, got=''):
        print('%-6s %-10s %s' % ('agree' if good else 'FAIL', 's3', name if good else '%s: %s' % (name, got)))
        if not good:
            failed.append(name)

    got = http('PUT', presign('PUT'), b'hello')
    step('put', got[0] == 200, got)
    got = http('GET', presign('GET'))
    step('get', got == (200, b'hello'), got)
    got = http('GET', presign('GET', AWS_SECRET_ACCESS_KEY='not/the+secret'))
    step('a wrong secret is refused', got[0] == 403, got)
    url_put, how, headers = client.presign('aws', 'PUT', url, BUCKET, KEY)
    step('upload by the agent', client.upload(how, url_put, headers))
    got = http('GET', presign('GET'))
    step('what the agent stored', got == (200, client.bytes), got[0])
    multipart(presign, step, client.bytes)
    got = http('DELETE', presign('DELETE'))
    step('delete', got[0] == 204, got)
    got = http('GET', presign('GET'))
    step('gone', got[0] == 404, got)
    return not failed


def multipart(presign, step, content):
    got = http('POST', presign('POST', 'uploads='), b'')
    step('multipart: begin', got[0] == 200, got)
    upload = [e.text for e in ET.fromstring(got[1]).iter() if e.tag.endswith('UploadId')][0]
    half, etags = len(content) // 2, []
    for k, part in enumerate((content[:half], content[half:])):
        got = exchange('PUT', presign('PUT', 'partNumber=%d&uploadId=%s' % (k + 1, upload)), part)
        step('multipart: part %d' % (k + 1), got[0] == 200, got)
        etags.append(got[2]['ETag'])
    body = '<CompleteMultipartUpload>%s</CompleteMultipartUpload>' % ''.join(
        '<Part><PartNumber>%d</PartNumber><ETag>%s</ETag></Part>' % (k + 1, e) for k, e in enumerate(etags))
    got = http('POST', presign('POST', 'uploadId=' + upload), body.encode(), ['Content-Type: application/xml'])
    step('multipart: complete', got[0] == 200, got)
    got = http('GET', presign('GET'))
    step('multipart: content', got == (200, content), got[0])


def main():
    logging.getLogger('werkzeug').setLevel(logging.CRITICAL)
    teach_wildcards()
    sign_what_came()
    server = ThreadedMotoServer(ip_address='127.0.0.1', port=0, verbose=False)
    server.start()
    try:
        url = 'http://%s:%d' % server.get_host_and_port()
        image, key, secret = account(url)
        settings.INITIAL_NO_AUTH_ACTION_COUNT = 0
        env = {k: v for k, v in os.environ.items() if not k.startswith('AWS_')}
        env.update(AWS_ACCESS_KEY_ID=key, AWS_SECRET_ACCESS_KEY=secret)
        agree = subprocess.run([sys.argv[1], url, image], env=env, timeout=300).returncode == 0
        # For presigned addresses the check is presigned_by_botocore; moto's own wants a header that they do not have.
        settings.INITIAL_NO_AUTH_ACTION_COUNT = float('inf')
        SECRETS[key] = secret
        return 0 if objects(sys.argv[2], url, env) and agree else 1
    finally:
        server.stop()


sys.exit(main())
