"""Runs moto_server in this process on a free loopback port, prepares an account in it, and runs argv[1] (aws_moto)
against it. From then on moto checks signatures and permissions: by botocore's signer, with an IAM user's key.
The exit status is the program's."""
import fnmatch
import io
import logging
import os
import subprocess
import sys
import threading

import boto3
from moto import settings
from moto.ec2.models.instance_types import InstanceTypeOfferingBackend
from moto.iam.access_control import IAMRequestBase
from moto.moto_server.werkzeug_app import DomainDispatcherApplication
from moto.server import ThreadedMotoServer

REGION = 'us-east-1'


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


def sign_what_came():
    """A signature is over the bytes of the body. moto keeps no form's bytes: it encodes the parsed form anew, with +
    for a blank, and so refuses whoever writes %20. EC2 takes both."""
    local = threading.local()
    serve, init = DomainDispatcherApplication.__call__, IAMRequestBase.__init__

    def keep(self, environ, start_response):
        local.body = environ['wsgi.input'].read(int(environ.get('CONTENT_LENGTH') or 0))
        environ['wsgi.input'] = io.BytesIO(local.body)
        return serve(self, environ, start_response)

    def from_bytes(self, *args, **kw):
        init(self, *args, **dict(kw, body=local.body))

    DomainDispatcherApplication.__call__ = keep
    IAMRequestBase.__init__ = from_bytes


def account(url):
    """An image to start from, and the key of a user who may do everything."""
    keys = {'aws_access_key_id': 'setup', 'aws_secret_access_key': 'setup'}
    ec2 = boto3.client('ec2', region_name=REGION, endpoint_url=url, **keys)
    iam = boto3.client('iam', region_name=REGION, endpoint_url=url, **keys)
    images = ec2.describe_images(Filters=[{'Name': 'architecture', 'Values': ['x86_64']}])['Images']
    iam.create_user(UserName='spotbroker')
    iam.put_user_policy(UserName='spotbroker', PolicyName='all', PolicyDocument=(
        '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"*","Resource":"*"}]}'))
    key = iam.create_access_key(UserName='spotbroker')['AccessKey']
    return images[0]['ImageId'], key['AccessKeyId'], key['SecretAccessKey']


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
        return subprocess.run([sys.argv[1], url, image], env=env, timeout=300).returncode
    finally:
        server.stop()


sys.exit(main())
