#!/usr/bin/env python3
"""The vendor's own SDK drives cloudsim: boto3 lists, launches, is refused, pages, signs and uploads as on AWS.
argv[1] is the emulator's program. Exit 77 (skipped) where there is no boto3."""
import datetime
import json
import os
import sys
import unittest

try:
    import boto3
    import botocore.auth
    import botocore.awsrequest
    from botocore.config import Config
    from botocore.credentials import Credentials
    from botocore.exceptions import ClientError
except ImportError:
    # The distribution's package lies with the distribution's Python, which may not be the first in PATH.
    if not os.environ.get('BOTO3_TRIED') and os.path.exists('/usr/bin/python3'):
        os.execve('/usr/bin/python3', ['/usr/bin/python3'] + sys.argv, dict(os.environ, BOTO3_TRIED='1'))
    print('no boto3: skipped (apt package python3-boto3)')
    sys.exit(77)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from support.cloudsim import Cloudsim, UBUNTU  # noqa: E402
from world import exchange  # noqa: E402
import aws_models  # noqa: E402

PROGRAM = sys.argv.pop(1) if len(sys.argv) > 1 else 'cloudsim'
UTC = datetime.timezone.utc
TYPE = 'g5.xlarge'


class Base(unittest.TestCase):
    options = ('--seed', '21', '--boot-ms', '20', '--terminate-ms', '20', '--no-throttle')

    @classmethod
    def setUpClass(cls):
        cls.sim = Cloudsim(PROGRAM, *cls.options)
        cls.ami = cls.client('ssm').get_parameter(Name=UBUNTU)['Parameter']['Value']
        cls.ec2 = cls.client('ec2')

    @classmethod
    def tearDownClass(cls):
        assert cls.sim.stop() == 0

    @classmethod
    def client(cls, service, region='us-east-1', key=None, secret=None, token=None, **config):
        config.setdefault('retries', {'max_attempts': 0})
        return aws_models.watch(boto3.client(service, region_name=region, endpoint_url=cls.sim.url, aws_session_token=token,
                            aws_access_key_id=key or cls.sim.aws['access_key_id'],
                            aws_secret_access_key=secret or cls.sim.aws['secret_access_key'], config=Config(**config)))

    def fails(self, code, status, call, *args, **kw):
        with self.assertRaises(ClientError) as got:
            call(*args, **kw)
        self.assertEqual(got.exception.response['Error']['Code'], code)
        self.assertEqual(got.exception.response['ResponseMetadata']['HTTPStatusCode'], status)
        return got.exception.response['Error']['Message']

    def args(self, token, zone='us-east-1a', **more):
        a = {'ImageId': self.ami, 'InstanceType': TYPE, 'MinCount': 1, 'MaxCount': 1, 'ClientToken': token,
             'Placement': {'AvailabilityZone': zone}, 'InstanceMarketOptions': {
                 'MarketType': 'spot', 'SpotOptions': {'SpotInstanceType': 'one-time', 'InstanceInterruptionBehavior': 'terminate'}}}
        a.update(more)
        return {k: v for k, v in a.items() if v is not None}

    def launch(self, token, **more):
        return self.ec2.run_instances(**self.args(token, **more))['Instances'][0]


class Catalog(Base):
    def test_regions_are_those_enabled_unless_all_are_asked_for(self):
        enabled = [r['RegionName'] for r in self.ec2.describe_regions()['Regions']]
        everything = self.ec2.describe_regions(AllRegions=True)['Regions']
        self.assertIn('us-east-1', enabled)
        self.assertNotIn('af-south-1', enabled)
        off = [r['RegionName'] for r in everything if r['OptInStatus'] == 'not-opted-in']
        self.assertEqual(set(enabled) | set(off), {r['RegionName'] for r in everything})
        self.fails('AuthFailure', 401, self.client('ec2', 'af-south-1').describe_regions)

    def test_zones_have_names_and_ids(self):
        zones = self.ec2.describe_availability_zones()['AvailabilityZones']
        self.assertEqual(len(zones), 6)
        self.assertEqual({z['ZoneId'] for z in zones}, {'use1-az%d' % k for k in range(1, 7)})
        one = self.ec2.describe_availability_zones(ZoneIds=['use1-az4'])['AvailabilityZones']
        self.assertEqual([z['ZoneName'] for z in one], ['us-east-1a'])

    def test_types_by_wildcard_in_pages(self):
        pages = list(self.ec2.get_paginator('describe_instance_types').paginate(
            Filters=[{'Name': 'instance-type', 'Values': ['g*', 'p*']}], PaginationConfig={'PageSize': 7}))
        names = [t['InstanceType'] for p in pages for t in p['InstanceTypes']]
        self.assertGreater(len(pages), 5)
        self.assertEqual(len(names), len(set(names)))
        self.assertIn('p5.48xlarge', names)

    def test_gpus_are_told_as_the_vendor_tells_them(self):
        t = {x['InstanceType']: x for x in self.ec2.describe_instance_types(
            InstanceTypes=['g5.12xlarge', 'p5.48xlarge', 'g6f.xlarge'])['InstanceTypes']}
        gpu = t['g5.12xlarge']['GpuInfo']['Gpus'][0]
        self.assertEqual((gpu['Name'], gpu['Count'], gpu['MemoryInfo']['SizeInMiB']), ('A10G', 4, 22888))
        self.assertEqual(t['g6f.xlarge']['GpuInfo']['Gpus'][0]['Count'], 0)
        self.assertEqual(t['p5.48xlarge']['NetworkInfo']['EfaInfo']['MaximumEfaInterfaces'], 32)
        self.fails('InvalidInstanceType', 400, self.ec2.describe_instance_types, InstanceTypes=['g99.mega'])

    def test_types_without_a_gpu_are_listed_too(self):
        t = self.ec2.describe_instance_types(InstanceTypes=['t3.micro'])['InstanceTypes'][0]
        self.assertNotIn('GpuInfo', t)
        self.assertEqual(t['SupportedUsageClasses'], ['on-demand'])

    def test_offerings_by_zone_id(self):
        o = self.ec2.describe_instance_type_offerings(LocationType='availability-zone-id', Filters=[
            {'Name': 'instance-type', 'Values': ['p4d.*']}])['InstanceTypeOfferings']
        self.assertTrue(o and all(x['Location'].startswith('use1-az') for x in o))

    def test_history_from_now_is_one_effective_price_per_pool_and_product(self):
        now = datetime.datetime.now(UTC)
        rows = [r for p in self.ec2.get_paginator('describe_spot_price_history').paginate(
            StartTime=now, ProductDescriptions=['Linux/UNIX', 'Linux/UNIX (Amazon VPC)'],
            PaginationConfig={'PageSize': 50}) for r in p['SpotPriceHistory']]
        keys = [(r['InstanceType'], r['AvailabilityZone'], r['ProductDescription']) for r in rows]
        self.assertEqual(len(keys), len(set(keys)))
        self.assertEqual({k[2] for k in keys}, {'Linux/UNIX', 'Linux/UNIX (Amazon VPC)'})
        pools = {(p['type'], p['zone_name']): p['spot_micros'] for p in self.sim.ctl('GET', '/pools?pool=aws/us-east-1')['pools']}
        for r in rows:
            self.assertLessEqual(r['Timestamp'], now)
            self.assertEqual(round(float(r['SpotPrice']) * 1e6), pools[(r['InstanceType'], r['AvailabilityZone'])])
        sold = {k for k, v in pools.items() if v and '-atl-' not in k[1]}
        self.assertEqual({k[:2] for k in keys}, sold)

    def test_history_over_time_starts_with_the_price_in_force_then(self):
        start = datetime.datetime.now(UTC) - datetime.timedelta(days=10)
        rows = [r for p in self.ec2.get_paginator('describe_spot_price_history').paginate(
            StartTime=start, InstanceTypes=['p3.2xlarge'], AvailabilityZone='us-east-1a', ProductDescriptions=['Linux/UNIX'],
            PaginationConfig={'PageSize': 3}) for r in p['SpotPriceHistory']]
        times = [r['Timestamp'] for r in rows]
        self.assertGreater(len(rows), 5)
        self.assertEqual(times, sorted(times, reverse=True))
        self.assertEqual(sum(t <= start for t in times), 1)

    def test_placement_scores_are_low_for_few_types(self):
        def ask(types):
            return self.ec2.get_spot_placement_scores(InstanceTypes=types, TargetCapacity=1, RegionNames=['us-east-1'],
                                                      SingleAvailabilityZone=True)['SpotPlacementScores']
        self.assertLessEqual(max(s['Score'] for s in ask(['g5.xlarge'])), 3)
        self.assertGreater(max(s['Score'] for s in ask(['g5.xlarge', 'g5.2xlarge', 'g4dn.xlarge'])), 3)

    def test_images_and_subnets(self):
        self.assertEqual(self.ec2.describe_images(ImageIds=[self.ami])['Images'][0]['Architecture'], 'x86_64')
        self.fails('InvalidAMIID.NotFound', 400, self.ec2.describe_images, ImageIds=['ami-00000000000000000'])
        self.assertEqual(self.ec2.describe_images(Owners=['self'])['Images'], [])
        self.assertIn(self.ami, [i['ImageId'] for i in self.ec2.describe_images(Owners=['amazon'])['Images']])
        s = self.ec2.describe_subnets(Filters=[{'Name': 'availability-zone-id', 'Values': ['use1-az4']}])['Subnets']
        self.assertEqual([x['AvailabilityZone'] for x in s], ['us-east-1a'])


class Launch(Base):
    def tearDown(self):
        self.sim.ctl('POST', '/stock', {'pool': '*', 'count': None})

    def test_a_launch_and_its_end(self):
        i = self.launch('life', UserData='#!/bin/sh\n', TagSpecifications=[
            {'ResourceType': 'instance', 'Tags': [{'Key': 'brk:install', 'Value': '7f'}]}])
        self.assertEqual((i['State']['Name'], i['InstanceLifecycle'], i['ClientToken']), ('pending', 'spot', 'life'))
        waiter = self.ec2.get_waiter('instance_running')
        waiter.config.delay = 0
        waiter.wait(InstanceIds=[i['InstanceId']])
        found = self.ec2.describe_instances(Filters=[{'Name': 'tag:brk:install', 'Values': ['7f']}, {
            'Name': 'instance-state-name', 'Values': ['pending', 'running']}])['Reservations'][0]['Instances']
        self.assertEqual([x['InstanceId'] for x in found], [i['InstanceId']])
        t = self.ec2.terminate_instances(InstanceIds=[i['InstanceId']])['TerminatingInstances'][0]
        self.assertEqual((t['CurrentState']['Name'], t['PreviousState']['Name']), ('shutting-down', 'running'))
        self.sim.wait('terminated', instance=i['InstanceId'])
        end = self.ec2.describe_instances(InstanceIds=[i['InstanceId']])['Reservations'][0]['Instances'][0]
        self.assertEqual((end['State']['Name'], end['StateReason']['Code']), ('terminated', 'Client.UserInitiatedShutdown'))
        again = self.ec2.terminate_instances(InstanceIds=[i['InstanceId']])['TerminatingInstances'][0]
        self.assertEqual(again['CurrentState']['Name'], 'terminated')

    def test_on_demand_has_no_lifecycle(self):
        i = self.launch('od', InstanceMarketOptions=None)
        self.assertNotIn('InstanceLifecycle', i)
        self.assertNotIn('SpotInstanceRequestId', i)

    def test_the_same_token_and_request_launch_once(self):
        a, b = self.launch('idem'), self.launch('idem')
        self.assertEqual(a['InstanceId'], b['InstanceId'])

    def test_the_same_token_with_other_parameters_is_refused(self):
        self.launch('mismatch')
        self.fails('IdempotentParameterMismatch', 400, self.ec2.run_instances, **self.args('mismatch', InstanceType='g5.2xlarge'))

    def test_the_scope_of_a_token_is_its_zone(self):
        a, b = self.launch('zonal'), self.launch('zonal', zone='us-east-1b')
        self.assertNotEqual(a['InstanceId'], b['InstanceId'])

    def test_a_token_whose_instance_is_gone(self):
        i = self.launch('dead')
        self.ec2.terminate_instances(InstanceIds=[i['InstanceId']])
        self.fails('IdempotentInstanceTerminated', 400, self.ec2.run_instances, **self.args('dead'))

    def test_no_capacity_is_a_500_and_binds_the_token(self):
        self.sim.ctl('POST', '/stock', {'pool': 'aws/us-east-1/us-east-1c/*/spot', 'count': 0})
        a = self.args('ice', zone='us-east-1c')
        self.fails('InsufficientInstanceCapacity', 500, self.ec2.run_instances, **a)
        self.fails('IdempotentParameterMismatch', 400, self.ec2.run_instances,
                   **self.args('ice', zone='us-east-1c', InstanceType='g5.2xlarge'))
        self.sim.ctl('POST', '/stock', {'pool': 'aws/us-east-1/us-east-1c/*/spot', 'count': 1})
        self.assertEqual(len(self.ec2.run_instances(**a)['Instances']), 1)

    def test_count_is_all_or_nothing_between_min_and_max(self):
        self.sim.ctl('POST', '/stock', {'pool': 'aws/us-east-1/us-east-1d/g5.4xlarge/spot', 'count': 3})
        a = {'zone': 'us-east-1d', 'InstanceType': 'g5.4xlarge'}
        self.fails('InsufficientInstanceCapacity', 500, self.ec2.run_instances, **self.args('gang', MinCount=4, MaxCount=5, **a))
        self.assertEqual(len(self.ec2.run_instances(**self.args('some', MinCount=2, MaxCount=5, **a))['Instances']), 3)

    def test_invalid_launches_are_refused(self):
        for code, more in (('SpotMaxPriceTooLow', {'InstanceMarketOptions': {'MarketType': 'spot', 'SpotOptions': {'MaxPrice': '0.01'}}}),
                           ('InvalidAMIID.NotFound', {'ImageId': 'ami-0fedcba9876543210'}),
                           ('InvalidAMIID.Malformed', {'ImageId': 'nonsense'}),
                           ('InvalidParameterValue', {'InstanceType': 'g99.mega'}),
                           ('InvalidParameterValue', {'InstanceType': 'g5g.xlarge'}),
                           ('InvalidUserData.Malformed', {'UserData': 'x' * 16385}),
                           ('InvalidSubnetID.NotFound', {'SubnetId': 'subnet-00000000000000000', 'Placement': {}}),
                           ('InvalidGroup.NotFound', {'SecurityGroupIds': ['sg-00000000']}),
                           ('InvalidPlacementGroup.Unknown', {'Placement': {'AvailabilityZone': 'us-east-1a', 'GroupName': 'pg'}}),
                           ('InvalidParameterValue', {'IamInstanceProfile': {'Name': 'two words'}}),
                           ('InvalidParameterValue', {'TagSpecifications': [
                               {'ResourceType': 'instance', 'Tags': [{'Key': 'k', 'Value': '1'}, {'Key': 'k', 'Value': '2'}]}]}),
                           ('InvalidParameterCombination', {'NetworkInterfaces': [
                               {'DeviceIndex': 0, 'AssociatePublicIpAddress': True}, {'DeviceIndex': 1}]}),
                           ('InvalidParameterCombination', {'InstanceMarketOptions': {'MarketType': 'spot', 'SpotOptions': {
                               'SpotInstanceType': 'persistent', 'InstanceInterruptionBehavior': 'terminate'}}}),
                           ('InvalidParameterValue', {'zone': 'us-east-1z'})):
            self.fails(code, 400, self.ec2.run_instances, **self.args('refused', **more))
        self.fails('Unsupported', 400, self.ec2.run_instances, **self.args('x', InstanceType='p6-b300.48xlarge', zone='us-east-1e'))
        self.fails('DryRunOperation', 412, self.ec2.run_instances, **self.args('dry', DryRun=True))

    def test_quotas_bind_by_class_and_market(self):
        west = self.client('ec2', 'us-west-2')
        ami = self.client('ssm', 'us-west-2').get_parameter(Name=UBUNTU)['Parameter']['Value']
        self.sim.ctl('POST', '/quota', {'region': 'us-west-2', 'code': 'L-3819A6DF', 'vcpus': 4})
        self.sim.ctl('POST', '/quota', {'region': 'us-west-2', 'code': 'L-DB2E81BA', 'vcpus': 0})
        a = dict(zone='us-west-2a', ImageId=ami)
        west.run_instances(**self.args('q1', **a))
        self.fails('MaxSpotInstanceCountExceeded', 400, west.run_instances, **self.args('q2', **a))
        self.fails('VcpuLimitExceeded', 400, west.run_instances, **self.args('q3', InstanceMarketOptions=None, **a))

    def test_one_unknown_id_fails_the_batch_and_ends_nothing(self):
        i = self.launch('batch')['InstanceId']
        self.fails('InvalidInstanceID.NotFound', 400, self.ec2.terminate_instances, InstanceIds=[i, 'i-0123456789abcdef0'])
        self.assertIn(self.sim.state(i)['state'], ('pending', 'running'))

    def test_tags_after_the_launch(self):
        i = self.launch('tags')['InstanceId']
        self.ec2.create_tags(Resources=[i], Tags=[{'Key': 'a', 'Value': '1'}, {'Key': 'b', 'Value': '2'}])
        self.ec2.create_tags(Resources=[i], Tags=[{'Key': 'a', 'Value': '3'}])
        tags = self.ec2.describe_instances(InstanceIds=[i])['Reservations'][0]['Instances'][0]['Tags']
        self.assertEqual({t['Key']: t['Value'] for t in tags}, {'a': '3', 'b': '2'})
        self.fails('InvalidParameterValue', 400, self.ec2.create_tags, Resources=[i], Tags=[{'Key': 'aws:x', 'Value': '1'}])

    def test_spot_requests_tell_a_reclaim_before_the_instance_goes(self):
        i = self.launch('sir')
        self.sim.wait('running', instance=i['InstanceId'])
        sir = [i['SpotInstanceRequestId']]
        before = self.ec2.describe_spot_instance_requests(SpotInstanceRequestIds=sir)['SpotInstanceRequests'][0]
        self.assertEqual((before['State'], before['Status']['Code']), ('active', 'fulfilled'))
        self.sim.ctl('POST', '/reclaim', {'instance': i['InstanceId'], 'notice_s': 60})
        after = self.ec2.describe_spot_instance_requests(Filters=[
            {'Name': 'instance-id', 'Values': [i['InstanceId']]}])['SpotInstanceRequests'][0]
        self.assertEqual((after['State'], after['Status']['Code']), ('closed', 'instance-terminated-no-capacity'))
        state = self.ec2.describe_instances(InstanceIds=[i['InstanceId']])['Reservations'][0]['Instances'][0]['State']['Name']
        self.assertEqual(state, 'running')

    def test_cancelling_a_request_leaves_its_instance(self):
        i = self.launch('cancel')
        c = self.ec2.cancel_spot_instance_requests(SpotInstanceRequestIds=[i['SpotInstanceRequestId']])
        self.assertEqual(c['CancelledSpotInstanceRequests'][0]['State'], 'cancelled')
        self.assertIn(self.sim.state(i['InstanceId'])['state'], ('pending', 'running'))

    def test_pages_of_instances(self):
        self.ec2.run_instances(**self.args('many', MinCount=23, MaxCount=23))
        pages = list(self.ec2.get_paginator('describe_instances').paginate(
            Filters=[{'Name': 'client-token', 'Values': ['many']}], PaginationConfig={'PageSize': 5}))
        ids = [i['InstanceId'] for p in pages for r in p['Reservations'] for i in r['Instances']]
        self.assertEqual((len(pages), len(ids), len(set(ids))), (5, 23, 23))
        self.fails('InvalidNextToken', 400, self.ec2.describe_instances, NextToken='nonsense', MaxResults=5)

    def test_an_unknown_filter_is_refused(self):
        self.fails('InvalidParameterValue', 400, self.ec2.describe_instances, Filters=[{'Name': 'colour', 'Values': ['red']}])

    def test_an_unknown_parameter_is_refused(self):
        status, x = self.sim.ec2('DescribeRegions', params={'Colour': 'red'})
        self.assertEqual((status, x.find('.//Code').text), (400, 'UnknownParameter'))


class Throttle(Base):
    options = ('--seed', '22', '--boot-ms', '20', '--terminate-ms', '20')

    def test_run_instances_draws_from_its_bucket_of_five(self):
        got = []
        for k in range(9):
            try:
                self.ec2.run_instances(**self.args('t%d' % k))
                got.append('ok')
            except ClientError as e:
                got.append((e.response['Error']['Code'], e.response['ResponseMetadata']['HTTPStatusCode']))
        self.assertEqual(got[:5], ['ok'] * 5)
        self.assertIn(('RequestLimitExceeded', 503), got[5:])
        # The SDK's own retries get through, and another region has its own bucket.
        self.client('ec2', retries={'max_attempts': 10, 'mode': 'standard'}).run_instances(**self.args('t99'))
        self.client('ec2', 'us-west-2').describe_regions()


class Identity(Base):
    SERVICES = (('ec2', lambda c: c.describe_regions()), ('sts', lambda c: c.get_caller_identity()),
                ('ssm', lambda c: c.get_parameter(Name=UBUNTU)), ('s3', lambda c: c.list_buckets()))

    def refused(self, codes, **kw):
        for service, call in self.SERVICES:
            with self.assertRaises(ClientError) as got:
                call(self.client(service, **kw))
            self.assertEqual(got.exception.response['Error']['Code'], codes[service])

    def test_a_wrong_secret_is_refused_by_every_protocol(self):
        self.refused({'ec2': 'SignatureDoesNotMatch', 'sts': 'SignatureDoesNotMatch', 'ssm': 'InvalidSignatureException',
                      's3': 'SignatureDoesNotMatch'}, secret='x' * 40)

    def test_an_unknown_key_is_refused(self):
        self.refused({'ec2': 'AuthFailure', 'sts': 'InvalidClientTokenId', 'ssm': 'UnrecognizedClientException',
                      's3': 'InvalidAccessKeyId'}, key='AKIA' + 16 * 'A')

    def test_the_refusal_shows_the_canonical_request(self):
        c = self.client('sts', secret='x' * 40)
        self.assertIn("The Canonical String for this request should have been\n'POST\n/\n",
                      self.fails('SignatureDoesNotMatch', 403, c.get_caller_identity))

    def test_a_session_works_until_it_expires(self):
        sts = self.client('sts')
        c = sts.assume_role(RoleArn='arn:aws:iam::123456789012:role/broker', RoleSessionName='s1')['Credentials']
        kw = {'key': c['AccessKeyId'], 'secret': c['SecretAccessKey'], 'token': c['SessionToken']}
        self.assertEqual(self.client('sts', **kw).get_caller_identity()['Arn'],
                         'arn:aws:sts::123456789012:assumed-role/broker/s1')
        for service, call in self.SERVICES:
            call(self.client(service, **kw))
        self.refused({'ec2': 'AuthFailure', 'sts': 'InvalidClientTokenId', 'ssm': 'UnrecognizedClientException',
                      's3': 'InvalidToken'}, **dict(kw, token='bad'))
        self.sim.ctl('POST', '/credentials', {'action': 'expire'})
        self.refused({'ec2': 'RequestExpired', 'sts': 'ExpiredToken', 'ssm': 'ExpiredTokenException', 's3': 'ExpiredToken'}, **kw)

    def test_web_identity_needs_no_signature(self):
        sts = self.client('sts')
        a = {'RoleArn': 'arn:aws:iam::123456789012:role/broker', 'RoleSessionName': 'pod'}
        c = sts.assume_role_with_web_identity(WebIdentityToken='aa.bb.cc', **a)['Credentials']
        who = self.client('sts', key=c['AccessKeyId'], secret=c['SecretAccessKey'], token=c['SessionToken']).get_caller_identity()
        self.assertEqual(who['Account'], '123456789012')
        self.fails('InvalidIdentityToken', 400, sts.assume_role_with_web_identity, WebIdentityToken='nonsense', **a)
        self.fails('ExpiredTokenException', 400, sts.assume_role_with_web_identity, WebIdentityToken='aa.expired.cc', **a)
        self.fails('ValidationError', 400, sts.assume_role_with_web_identity, WebIdentityToken='aa.bb.cc',
                   **dict(a, DurationSeconds=900, RoleArn='arn:aws:iam::x:role/broker'))

    def test_a_rotated_key_ends_the_old_one(self):
        old = self.client('sts')
        fresh = self.sim.ctl('POST', '/credentials', {'action': 'rotate'})['aws']
        self.fails('InvalidClientTokenId', 403, old.get_caller_identity)
        type(self).sim.aws = fresh
        type(self).ec2 = self.client('ec2')
        self.client('sts').get_caller_identity()

    def send(self, minutes=0, body=b'Action=DescribeRegions&Version=2016-11-15', tamper=None):
        """Signed by botocore's own signer, at a clock that is off or changed after signing."""
        now = datetime.datetime.now(UTC) + datetime.timedelta(minutes=minutes)
        status, _, text = self.sim.call('ec2', body, {'content-type': 'application/x-www-form-urlencoded'}, now=now)
        if tamper:
            r = botocore.awsrequest.AWSRequest('POST', self.sim.url + '/', data=body)
            botocore.auth.SigV4Auth(Credentials(self.sim.aws['access_key_id'], self.sim.aws['secret_access_key']), 'ec2',
                                    'us-east-1').add_auth(r)
            headers = dict(r.headers.items())
            status, _, text = exchange('POST', self.sim.url + tamper.get('path', '/'), tamper.get('body', body),
                                       dict(headers, **tamper.get('headers', {})))
        return status, text.decode()

    def test_a_clock_that_is_off_by_more_than_a_quarter_hour_is_refused(self):
        self.assertEqual(self.send(14)[0], 200)
        for minutes in (-16, 16):
            status, text = self.send(minutes)
            self.assertEqual(status, 400)
            self.assertIn('<Code>RequestExpired</Code>', text)

    def test_any_changed_byte_is_refused(self):
        self.assertEqual(self.send(tamper={})[0], 200)
        for tamper in ({'body': b'Action=DescribeRegions&Version=2016-11-15&AllRegions=true'}, {'path': '/?x=1'},
                       {'headers': {'X-Amz-Date': '20200101T000000Z'}}, {'headers': {'X-Amz-Extra': 'not signed'}}):
            status, text = self.send(tamper=tamper)
            self.assertNotEqual(status, 200, tamper)
            self.assertRegex(text, 'SignatureDoesNotMatch|RequestExpired')


class Lists(Base):
    def test_parameters_of_images(self):
        ssm = self.client('ssm', 'eu-west-1')
        got = ssm.get_parameters(Names=[UBUNTU, '/no/such'])
        self.assertEqual(got['InvalidParameters'], ['/no/such'])
        self.assertRegex(got['Parameters'][0]['Value'], '^ami-0[0-9a-f]{16}$')
        self.assertNotEqual(got['Parameters'][0]['Value'], self.ami)
        self.fails('ParameterNotFound', 400, ssm.get_parameter, Name='/no/such')

    def prices(self, region='us-east-1', **fields):
        pages = self.client('pricing').get_paginator('get_products').paginate(ServiceCode='AmazonEC2', Filters=[
            {'Type': 'TERM_MATCH', 'Field': k, 'Value': v} for k, v in dict(fields, regionCode=region).items()])
        return [json.loads(p) for page in pages for p in page['PriceList']]

    def test_the_full_filter_gives_exactly_one_price(self):
        got = self.prices(instanceType='p5.48xlarge', operatingSystem='Linux', tenancy='Shared', preInstalledSw='NA',
                          capacitystatus='Used', marketoption='OnDemand', productFamily='Compute Instance')
        self.assertEqual(len(got), 1)
        term = list(got[0]['terms']['OnDemand'].values())[0]
        price = list(term['priceDimensions'].values())[0]
        self.assertEqual((price['unit'], price['pricePerUnit']['USD']), ('Hrs', '55.0400000000'))

    def test_a_careless_filter_meets_the_decoys(self):
        got = self.prices(instanceType='p5.48xlarge')
        usd = sorted(float(list(list(p['terms']['OnDemand'].values())[0]['priceDimensions'].values())[0]['pricePerUnit']['USD'])
                     for p in got)
        self.assertEqual(usd, [0.0, 55.04, 55.04])
        self.assertTrue(any('instanceType' not in p['product']['attributes'] for p in self.prices()))

    def test_products_come_in_pages(self):
        c = self.client('pricing')
        a = {'ServiceCode': 'AmazonEC2', 'MaxResults': 5, 'Filters': [{'Type': 'TERM_MATCH', 'Field': 'regionCode', 'Value': 'us-east-1'}]}
        first = c.get_products(**a)
        second = c.get_products(NextToken=first['NextToken'], **a)
        self.assertEqual((len(first['PriceList']), len(second['PriceList'])), (5, 5))
        self.assertFalse(set(first['PriceList']) & set(second['PriceList']))

    def test_quotas_applied_and_default(self):
        q = self.client('service-quotas')
        self.sim.ctl('POST', '/quota', {'region': 'us-east-1', 'code': 'L-3819A6DF', 'vcpus': 64})
        one = q.get_service_quota(ServiceCode='ec2', QuotaCode='L-3819A6DF')['Quota']
        self.assertEqual((one['Value'], one['UsageMetric']['MetricDimensions']['Class']), (64.0, 'G/Spot'))
        self.assertEqual(q.get_aws_default_service_quota(ServiceCode='ec2', QuotaCode='L-3819A6DF')['Quota']['Value'], 0.0)
        codes = [x['QuotaCode'] for p in q.get_paginator('list_service_quotas').paginate(
            ServiceCode='ec2', PaginationConfig={'PageSize': 2}) for x in p['Quotas']]
        self.assertEqual(len(codes), len(set(codes)))
        self.assertIn('L-7212CCBC', codes)
        self.fails('NoSuchResourceException', 400, q.get_service_quota, ServiceCode='ec2', QuotaCode='L-00000000')


class Models(Base):
    def test_a_reply_that_is_not_in_the_model_is_noticed(self):
        """Each client of this file compares its replies with the vendor's models; here they are misspelt."""
        op = self.ec2.meta.service_model.operation_model('DescribeRegions')
        good = ('<DescribeRegionsResponse><requestId>r</requestId><regionInfo><item><regionName>us-east-1</regionName></item>'
                '</regionInfo></DescribeRegionsResponse>')
        self.assertTrue(aws_models.check(op, 200, good))
        for was, wrong in (('regionName', 'regionNames'), ('regionInfo', 'regionSet'), ('item', 'member')):
            with self.assertRaises(aws_models.Unknown):
                aws_models.check(op, 200, good.replace(was, wrong))
        quotas = boto3.client('service-quotas', region_name='us-east-1').meta.service_model
        with self.assertRaises(aws_models.Unknown):
            aws_models.check(quotas.operation_model('ListServiceQuotas'), 200, '{"Quotas":[{"QuotaNames":"x"}]}')
        self.ec2.describe_regions()
        self.assertGreater(aws_models.COUNT['DescribeRegions'], 0)


if __name__ == '__main__':
    unittest.main(warnings='ignore')
