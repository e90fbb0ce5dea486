#!/usr/bin/env python3
"""boto3, and common calls other than RunInstances: spot requests, launch templates, fleets, stop and start, parts of an
instance. Same rules as test_boto3.py: replies are compared with the vendor's models."""
import base64
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from test_boto3 import TYPE, Base  # noqa: E402


class Spot(Base):
    def tearDown(self):
        self.sim.ctl('POST', '/stock', {'pool': '*', 'count': None})

    def spec(self, **more):
        return dict({'ImageId': self.ami, 'InstanceType': TYPE, 'Placement': {'AvailabilityZone': 'us-east-1a'}}, **more)

    def status(self, sir):
        r = self.ec2.describe_spot_instance_requests(SpotInstanceRequestIds=[sir])['SpotInstanceRequests'][0]
        return r['State'], r['Status']['Code'], r.get('InstanceId')

    def test_a_request_becomes_an_instance(self):
        got = self.ec2.request_spot_instances(
            InstanceCount=2, Type='one-time', LaunchSpecification=self.spec(UserData=base64.b64encode(b'#!/bin/sh').decode()),
            TagSpecifications=[{'ResourceType': 'spot-instances-request', 'Tags': [{'Key': 'a', 'Value': '1'}]}])
        ids = [r['SpotInstanceRequestId'] for r in got['SpotInstanceRequests']]
        self.assertEqual(len(set(ids)), 2)
        self.assertEqual(got['SpotInstanceRequests'][0]['Status']['Code'], 'pending-evaluation')
        waiter = self.ec2.get_waiter('spot_instance_request_fulfilled')
        waiter.config.delay = 0
        waiter.wait(SpotInstanceRequestIds=ids)
        state, code, instance = self.status(ids[0])
        self.assertEqual((state, code), ('active', 'fulfilled'))
        i = self.ec2.describe_instances(InstanceIds=[instance])['Reservations'][0]['Instances'][0]
        self.assertEqual((i['InstanceLifecycle'], i['SpotInstanceRequestId']), ('spot', ids[0]))
        tagged = self.ec2.describe_spot_instance_requests(Filters=[{'Name': 'tag:a', 'Values': ['1']}])['SpotInstanceRequests']
        self.assertEqual({r['SpotInstanceRequestId'] for r in tagged}, set(ids))

    def test_without_capacity_it_waits_and_can_be_cancelled(self):
        self.sim.ctl('POST', '/stock', {'pool': 'aws/us-east-1/*/*/spot', 'count': 0})
        a, b = [r['SpotInstanceRequestId'] for r in self.ec2.request_spot_instances(
            InstanceCount=2, LaunchSpecification=self.spec())['SpotInstanceRequests']]
        self.assertEqual(self.status(a), ('open', 'capacity-not-available', None))
        self.ec2.create_tags(Resources=[a], Tags=[{'Key': 'later', 'Value': '1'}])
        self.assertEqual(self.ec2.describe_spot_instance_requests(Filters=[{'Name': 'tag:later', 'Values': ['1']}])
                         ['SpotInstanceRequests'][0]['SpotInstanceRequestId'], a)
        self.ec2.cancel_spot_instance_requests(SpotInstanceRequestIds=[b])
        self.assertEqual(self.status(b)[:2], ('cancelled', 'canceled-before-fulfillment'))
        self.sim.ctl('POST', '/stock', {'pool': '*', 'count': None})
        self.assertEqual(self.status(a)[:2], ('active', 'fulfilled'))
        self.assertEqual(self.status(b)[:2], ('cancelled', 'canceled-before-fulfillment'))

    def test_a_price_too_low_waits_too(self):
        sir = self.ec2.request_spot_instances(SpotPrice='0.01', LaunchSpecification=self.spec())['SpotInstanceRequests'][0]
        self.assertEqual((sir['SpotPrice'], sir['Type']), ('0.010000', 'one-time'))
        self.assertEqual(self.status(sir['SpotInstanceRequestId'])[:2], ('open', 'price-too-low'))
        self.ec2.cancel_spot_instance_requests(SpotInstanceRequestIds=[sir['SpotInstanceRequestId']])

    def test_invalid_spot_requests_are_refused(self):
        ask = self.ec2.request_spot_instances
        self.fails('InvalidAMIID.NotFound', 400, ask, LaunchSpecification=self.spec(ImageId='ami-0fedcba9876543210'))
        self.fails('InvalidParameterValue', 400, ask, LaunchSpecification=self.spec(InstanceType='g99.mega'))
        self.fails('InvalidParameterValue', 400, ask, LaunchSpecification=self.spec(), BlockDurationMinutes=60)
        self.fails('MissingParameter', 400, ask, LaunchSpecification={'ImageId': self.ami})
        self.fails('DryRunOperation', 412, ask, LaunchSpecification=self.spec(), DryRun=True)
        self.sim.ctl('POST', '/quota', {'region': 'us-east-1', 'code': 'L-3819A6DF', 'vcpus': 0})
        self.fails('MaxSpotInstanceCountExceeded', 400, ask, LaunchSpecification=self.spec())
        self.sim.ctl('POST', '/quota', {'region': 'us-east-1', 'code': 'L-3819A6DF', 'vcpus': 100000})


class Templates(Base):
    def tearDown(self):
        self.sim.ctl('POST', '/stock', {'pool': '*', 'count': None})

    def template(self, name, **data):
        return self.ec2.create_launch_template(LaunchTemplateName=name, LaunchTemplateData=dict(
            {'ImageId': self.ami, 'InstanceType': TYPE}, **data))['LaunchTemplate']

    def test_a_template_is_made_listed_used_and_deleted(self):
        t = self.template('life', UserData=base64.b64encode(b'#!/bin/sh').decode(), TagSpecifications=[
            {'ResourceType': 'instance', 'Tags': [{'Key': 'from', 'Value': 'template'}]}])
        self.assertEqual((t['DefaultVersionNumber'], t['LatestVersionNumber']), (1, 1))
        self.fails('InvalidLaunchTemplateName.AlreadyExistsException', 400, self.template, 'life')
        listed = self.ec2.describe_launch_templates(LaunchTemplateNames=['life'])['LaunchTemplates']
        self.assertEqual([x['LaunchTemplateId'] for x in listed], [t['LaunchTemplateId']])
        v = self.ec2.describe_launch_template_versions(LaunchTemplateName='life')['LaunchTemplateVersions'][0]
        self.assertEqual(v['LaunchTemplateData']['InstanceType'], TYPE)
        i = self.ec2.run_instances(LaunchTemplate={'LaunchTemplateName': 'life', 'Version': '$Latest'}, MinCount=1,
                                   MaxCount=1, InstanceType='g5.2xlarge')['Instances'][0]
        self.assertEqual((i['InstanceType'], i['ImageId']), ('g5.2xlarge', self.ami))
        self.assertEqual({x['Key']: x['Value'] for x in i['Tags']}, {
            'from': 'template', 'aws:ec2launchtemplate:id': t['LaunchTemplateId'], 'aws:ec2launchtemplate:version': '1'})
        self.fails('InvalidLaunchTemplateId.VersionNotFound', 400, self.ec2.run_instances, MinCount=1, MaxCount=1,
                   LaunchTemplate={'LaunchTemplateName': 'life', 'Version': '7'})
        self.ec2.delete_launch_template(LaunchTemplateId=t['LaunchTemplateId'])
        self.fails('InvalidLaunchTemplateId.NotFound', 400, self.ec2.describe_launch_templates,
                   LaunchTemplateIds=[t['LaunchTemplateId']])
        self.fails('InvalidLaunchTemplateName.NotFoundException', 400, self.ec2.delete_launch_template,
                   LaunchTemplateName='life')
        self.fails('InvalidLaunchTemplateName.MalformedException', 400, self.template, 'a b c')

    def fleet(self, name, overrides, total=2, kind='spot', **more):
        return self.ec2.create_fleet(**dict({
            'Type': 'instant', 'LaunchTemplateConfigs': [{
                'LaunchTemplateSpecification': {'LaunchTemplateName': name, 'Version': '1'}, 'Overrides': overrides}],
            'TargetCapacitySpecification': {'TotalTargetCapacity': total, 'DefaultTargetCapacityType': kind}}, **more))

    def test_an_instant_fleet_takes_what_there_is_and_tells_what_there_is_not(self):
        self.template('fleet')
        self.sim.ctl('POST', '/stock', {'pool': 'aws/us-east-1/us-east-1a/g5.xlarge/spot', 'count': 0})
        self.sim.ctl('POST', '/stock', {'pool': 'aws/us-east-1/us-east-1b/g5.xlarge/spot', 'count': 1})
        got = self.fleet('fleet', [{'InstanceType': TYPE, 'AvailabilityZone': 'us-east-1a', 'Priority': 1.0},
                                   {'InstanceType': TYPE, 'AvailabilityZone': 'us-east-1b', 'Priority': 2.0},
                                   {'InstanceType': 'g5.2xlarge', 'AvailabilityZone': 'us-east-1b', 'Priority': 3.0}],
                         total=3, SpotOptions={'AllocationStrategy': 'capacity-optimized-prioritized'}, ClientToken='f1',
                         TagSpecifications=[{'ResourceType': 'instance', 'Tags': [{'Key': 'gang', 'Value': 'x'}]}])
        self.assertEqual([(e['ErrorCode'], e['LaunchTemplateAndOverrides']['Overrides']['AvailabilityZone'], e['Lifecycle'])
                          for e in got['Errors']], [('InsufficientInstanceCapacity', 'us-east-1a', 'spot')])
        self.assertEqual([(i['InstanceType'], len(i['InstanceIds'])) for i in got['Instances']], [(TYPE, 1), ('g5.2xlarge', 2)])
        ids = [x for i in got['Instances'] for x in i['InstanceIds']]
        found = self.ec2.describe_instances(Filters=[{'Name': 'tag:aws:ec2:fleet-id', 'Values': [got['FleetId']]}])
        self.assertEqual({i['InstanceId'] for r in found['Reservations'] for i in r['Instances']}, set(ids))
        again = self.fleet('fleet', [{'InstanceType': TYPE, 'AvailabilityZone': 'us-east-1a', 'Priority': 1.0},
                                     {'InstanceType': TYPE, 'AvailabilityZone': 'us-east-1b', 'Priority': 2.0},
                                     {'InstanceType': 'g5.2xlarge', 'AvailabilityZone': 'us-east-1b', 'Priority': 3.0}],
                           total=3, SpotOptions={'AllocationStrategy': 'capacity-optimized-prioritized'}, ClientToken='f1',
                           TagSpecifications=[{'ResourceType': 'instance', 'Tags': [{'Key': 'gang', 'Value': 'x'}]}])
        self.assertEqual(again['FleetId'], got['FleetId'])

    def test_a_fleet_that_gets_nothing_is_a_200_and_uses_up_its_token(self):
        self.template('nothing')
        self.sim.ctl('POST', '/stock', {'pool': 'aws/us-east-1/*/*/spot', 'count': 0})
        got = self.fleet('nothing', [{'InstanceType': TYPE, 'AvailabilityZone': 'us-east-1c'}], ClientToken='n1')
        self.assertEqual((got['Instances'], len(got['Errors'])), ([], 1))
        self.fails('IdempotentParameterMismatch', 400, self.fleet, 'nothing',
                   [{'InstanceType': TYPE, 'AvailabilityZone': 'us-east-1c'}], kind='on-demand', ClientToken='n1')

    def test_on_demand_by_lowest_price_and_by_weight(self):
        self.template('on-demand')
        got = self.fleet('on-demand', [{'InstanceType': 'g5.12xlarge', 'WeightedCapacity': 4.0}, {'InstanceType': TYPE}],
                         kind='on-demand', total=8, OnDemandOptions={'AllocationStrategy': 'lowest-price'})
        n = {i['InstanceType']: len(i['InstanceIds']) for i in got['Instances']}
        self.assertIn(n, ({TYPE: 8}, {'g5.12xlarge': 2}))
        self.assertEqual(got['Instances'][0]['Lifecycle'], 'on-demand')

    def test_all_or_nothing_in_one_pool(self):
        self.template('gang')
        self.sim.ctl('POST', '/stock', {'pool': 'aws/us-east-1/us-east-1d/g5.xlarge/spot', 'count': 1})
        got = self.fleet('gang', [{'InstanceType': TYPE, 'AvailabilityZone': 'us-east-1d'},
                                  {'InstanceType': TYPE, 'AvailabilityZone': 'us-east-1f'}], total=3,
                         SpotOptions={'AllocationStrategy': 'lowest-price', 'SingleAvailabilityZone': True, 'MinTargetCapacity': 3})
        self.assertEqual([len(i['InstanceIds']) for i in got['Instances']], [3])

    def test_invalid_fleets_are_refused(self):
        self.template('refused')
        one = [{'InstanceType': TYPE}]
        self.fails('UnsupportedOperation', 400, self.fleet, 'refused', one, Type='maintain')
        self.fails('UnsupportedOperation', 400, self.fleet, 'refused', one, Type='request')
        self.fails('InvalidLaunchTemplateName.NotFoundException', 400, self.fleet, 'no-such', one)
        self.fails('InvalidFleetConfig', 400, self.fleet, 'refused', one, SpotOptions={'MinTargetCapacity': 2})
        self.fails('DryRunOperation', 412, self.fleet, 'refused', one, DryRun=True)
        self.template('market', InstanceMarketOptions={'MarketType': 'spot'})
        self.fails('InvalidFleetConfig', 400, self.fleet, 'market', one)
        self.fails('InvalidFleetId.NotFound', 400, self.ec2.describe_fleets, FleetIds=['fleet-' + '0' * 32])


class Power(Base):
    def started(self, token, **more):
        i = self.launch(token, **more)['InstanceId']
        self.sim.wait('running', instance=i)
        return i

    def state(self, i):
        return self.ec2.describe_instances(InstanceIds=[i])['Reservations'][0]['Instances'][0]['State']['Name']

    def stopped(self, i):
        waiter = self.ec2.get_waiter('instance_stopped')
        waiter.config.delay = 0
        waiter.config.max_attempts = 1000
        waiter.wait(InstanceIds=[i])

    def test_on_demand_stops_and_starts_and_is_not_billed_between(self):
        i = self.started('stop', InstanceMarketOptions=None)
        change = self.ec2.stop_instances(InstanceIds=[i])['StoppingInstances'][0]
        self.assertEqual((change['PreviousState']['Name'], change['CurrentState']['Name']), ('running', 'stopping'))
        self.stopped(i)
        before = self.sim.state(i)['cost_micros']
        self.assertEqual(self.sim.state(i)['cost_micros'], before)
        change = self.ec2.start_instances(InstanceIds=[i])['StartingInstances'][0]
        self.assertEqual((change['PreviousState']['Name'], change['CurrentState']['Name']), ('stopped', 'pending'))
        self.sim.wait('running', instance=i, count=2)
        self.ec2.reboot_instances(InstanceIds=[i])
        self.ec2.terminate_instances(InstanceIds=[i])
        self.sim.wait('terminated', instance=i)
        bill = [x for x in self.sim.ctl('GET', '/books')['instances'] if x['instance'] == i][0]
        self.assertGreaterEqual(len(bill['segments']), 2)
        self.assertLess(sum(s['to_us'] - s['from_us'] for s in bill['segments']), bill['to_us'] - bill['from_us'])
        self.fails('IncorrectInstanceState', 400, self.ec2.start_instances, InstanceIds=[i])

    def test_one_time_spot_cannot_be_stopped_persistent_can(self):
        i = self.started('once')
        self.assertIn('one-time', self.fails('UnsupportedOperation', 400, self.ec2.stop_instances, InstanceIds=[i]))
        self.assertEqual(self.state(i), 'running')
        i = self.started('lasting', InstanceMarketOptions={'MarketType': 'spot', 'SpotOptions': {
            'SpotInstanceType': 'persistent', 'InstanceInterruptionBehavior': 'stop'}})
        self.ec2.stop_instances(InstanceIds=[i])
        sir = self.ec2.describe_spot_instance_requests(Filters=[{'Name': 'instance-id', 'Values': [i]}])['SpotInstanceRequests'][0]
        self.assertEqual((sir['State'], sir['Status']['Code'], sir['Type']), ('disabled', 'instance-stopped-by-user', 'persistent'))
        self.stopped(i)
        self.sim.ctl('POST', '/stock', {'pool': 'aws/us-east-1/us-east-1a/g5.xlarge/spot', 'count': 0})
        self.fails('InsufficientInstanceCapacity', 500, self.ec2.start_instances, InstanceIds=[i])
        self.sim.ctl('POST', '/stock', {'pool': '*', 'count': None})
        self.ec2.start_instances(InstanceIds=[i])

    def test_an_interruption_stops_what_asked_for_it(self):
        i = self.started('int', InstanceMarketOptions={'MarketType': 'spot', 'SpotOptions': {
            'SpotInstanceType': 'persistent', 'InstanceInterruptionBehavior': 'stop'}})
        self.sim.ctl('POST', '/reclaim', {'instance': i, 'notice_s': 0})
        self.stopped(i)
        x = self.ec2.describe_instances(InstanceIds=[i])['Reservations'][0]['Instances'][0]
        self.assertEqual(x['StateReason']['Code'], 'Server.SpotInstanceShutdown')
        sir = self.ec2.describe_spot_instance_requests(SpotInstanceRequestIds=[x['SpotInstanceRequestId']])['SpotInstanceRequests'][0]
        self.assertEqual((sir['State'], sir['Status']['Code']), ('open', 'instance-stopped-no-capacity'))
        self.ec2.start_instances(InstanceIds=[i])
        self.sim.wait('running', instance=i, count=2)
        words = self.fails('InvalidParameterCombination', 400, self.ec2.run_instances, **self.args('int-2', InstanceMarketOptions={
            'MarketType': 'spot', 'SpotOptions': {'InstanceInterruptionBehavior': 'stop'}}))
        self.assertIn("'one-time'", words)

    def test_attributes_are_read_and_changed(self):
        i = self.started('attr', InstanceMarketOptions=None, UserData='#!/bin/sh\n')
        data = self.ec2.describe_instance_attribute(InstanceId=i, Attribute='userData')['UserData']['Value']
        self.assertEqual(base64.b64decode(data), b'#!/bin/sh\n')
        for name in ('instanceType', 'disableApiTermination', 'instanceInitiatedShutdownBehavior', 'blockDeviceMapping', 'groupSet',
                     'rootDeviceName', 'ebsOptimized', 'sourceDestCheck', 'kernel'):
            self.ec2.describe_instance_attribute(InstanceId=i, Attribute=name)
        self.ec2.modify_instance_attribute(InstanceId=i, DisableApiTermination={'Value': True})
        self.fails('OperationNotPermitted', 400, self.ec2.terminate_instances, InstanceIds=[i])
        self.ec2.modify_instance_attribute(InstanceId=i, Attribute='disableApiTermination', Value='false')
        self.fails('IncorrectInstanceState', 400, self.ec2.modify_instance_attribute, InstanceId=i, InstanceType={'Value': 'g5.2xlarge'})
        self.ec2.stop_instances(InstanceIds=[i])
        self.ec2.modify_instance_attribute(InstanceId=i, InstanceType={'Value': 'g5.2xlarge'})
        got = self.ec2.describe_instance_attribute(InstanceId=i, Attribute='instanceType')
        self.assertEqual(got['InstanceType']['Value'], 'g5.2xlarge')
        self.ec2.terminate_instances(InstanceIds=[i])
        self.fails('InvalidInstanceID.NotFound', 400, self.ec2.describe_instance_attribute, InstanceId='i-0123456789abcdef0',
                   Attribute='userData')
        self.fails('InvalidParameterValue', 400, self.ec2.describe_instance_attribute, InstanceId=i, Attribute='colour')

    def test_the_console(self):
        i = self.started('console')
        out = self.ec2.get_console_output(InstanceId=i, Latest=True)
        self.assertEqual(out['InstanceId'], i)
        self.assertIn('Linux version', out['Output'])
        self.fails('InvalidInstanceID.NotFound', 400, self.ec2.get_console_output, InstanceId='i-0123456789abcdef0')


class Things(Base):
    def test_volumes_interfaces_and_tags_of_an_instance(self):
        i = self.launch('things', TagSpecifications=[{'ResourceType': 'instance', 'Tags': [{'Key': 'k', 'Value': 'v'}]}],
                        BlockDeviceMappings=[{'DeviceName': '/dev/sda1', 'Ebs': {'VolumeSize': 200}}])
        disk = i['BlockDeviceMappings'][0]['Ebs']['VolumeId']
        by = {'Filters': [{'Name': 'attachment.instance-id', 'Values': [i['InstanceId']]}]}
        v = self.ec2.describe_volumes(**by)['Volumes'][0]
        self.assertEqual((v['VolumeId'], v['Size'], v['State'], v['Attachments'][0]['DeleteOnTermination']), (disk, 200, 'in-use', True))
        self.assertEqual(len(self.ec2.describe_volumes(VolumeIds=[disk])['Volumes']), 1)
        n = self.ec2.describe_network_interfaces(**by)['NetworkInterfaces'][0]
        self.assertEqual(n['NetworkInterfaceId'], i['NetworkInterfaces'][0]['NetworkInterfaceId'])
        self.assertEqual(n['PrivateIpAddress'], i['PrivateIpAddress'])
        tags = self.ec2.describe_tags(Filters=[{'Name': 'resource-id', 'Values': [i['InstanceId']]}])['Tags']
        self.assertEqual([(t['ResourceType'], t['Key'], t['Value']) for t in tags], [('instance', 'k', 'v')])
        self.ec2.terminate_instances(InstanceIds=[i['InstanceId']])
        self.sim.wait('terminated', instance=i['InstanceId'])
        self.assertEqual(self.ec2.describe_volumes(**by)['Volumes'], [])
        self.fails('InvalidVolume.NotFound', 400, self.ec2.describe_volumes, VolumeIds=['vol-0123456789abcdef0'])
        self.fails('InvalidNetworkInterfaceID.NotFound', 400, self.ec2.describe_network_interfaces,
                   NetworkInterfaceIds=['eni-0123456789abcdef0'])

    def test_volumes_and_interfaces_have_tags_of_their_own(self):
        spec = [{'ResourceType': r, 'Tags': [{'Key': 'job', 'Value': r}]} for r in ('instance', 'volume', 'network-interface')]
        i = self.launch('tagged', TagSpecifications=spec)
        disk, nic = i['BlockDeviceMappings'][0]['Ebs']['VolumeId'], i['NetworkInterfaces'][0]['NetworkInterfaceId']
        by = lambda value: {'Filters': [{'Name': 'tag:job', 'Values': [value]}]}
        self.assertEqual([v['VolumeId'] for v in self.ec2.describe_volumes(**by('volume'))['Volumes']], [disk])
        self.assertEqual([n['NetworkInterfaceId'] for n in self.ec2.describe_network_interfaces(**by('network-int*'))['NetworkInterfaces']], [nic])
        self.assertEqual(self.ec2.describe_volumes(**by('instance'))['Volumes'], [])
        self.ec2.create_tags(Resources=[disk, nic], Tags=[{'Key': 'later', 'Value': '1'}])
        self.ec2.delete_tags(Resources=[nic], Tags=[{'Key': 'job'}])
        tags = self.ec2.describe_tags(Filters=[{'Name': 'resource-id', 'Values': [disk, nic]}])['Tags']
        self.assertEqual(sorted((t['ResourceType'], t['Key'], t['Value']) for t in tags),
                         [('network-interface', 'later', '1'), ('volume', 'job', 'volume'), ('volume', 'later', '1')])
        self.fails('InvalidVolume.NotFound', 400, self.ec2.create_tags, Resources=['vol-0123456789abcdef0'], Tags=[{'Key': 'k', 'Value': 'v'}])
        self.ec2.terminate_instances(InstanceIds=[i['InstanceId']])

    def test_the_default_network_is_the_only_one(self):
        vpc = self.ec2.describe_vpcs(Filters=[{'Name': 'is-default', 'Values': ['true']}])['Vpcs'][0]['VpcId']
        group = self.ec2.describe_security_groups(Filters=[{'Name': 'vpc-id', 'Values': [vpc]}])['SecurityGroups'][0]
        self.assertEqual(group['GroupName'], 'default')
        self.assertEqual(self.ec2.describe_security_groups(Filters=[{'Name': 'group-name', 'Values': ['mine']}])['SecurityGroups'], [])
        self.assertEqual(self.ec2.describe_vpcs(Filters=[{'Name': 'tag:a', 'Values': ['b']}])['Vpcs'], [])
        self.fails('InvalidVpcID.NotFound', 400, self.ec2.describe_vpcs, VpcIds=['vpc-0123456789abcdef0'])
        self.fails('InvalidGroup.NotFound', 400, self.ec2.describe_security_groups, GroupIds=['sg-0123456789abcdef0'])
        self.fails('InvalidGroup.NotFound', 400, self.ec2.describe_security_groups, GroupNames=['mine'])
        self.fails('InvalidParameterValue', 400, self.ec2.describe_vpcs, Filters=[{'Name': 'colour', 'Values': ['red']}])

    def test_key_pairs(self):
        self.assertEqual(self.ec2.describe_key_pairs()['KeyPairs'], [])
        self.fails('InvalidKeyPair.NotFound', 400, self.ec2.run_instances, **self.args('key', KeyName='mine'))
        made = self.ec2.create_key_pair(KeyName='mine')
        self.assertIn('PRIVATE KEY', made['KeyMaterial'])
        self.fails('InvalidKeyPair.Duplicate', 400, self.ec2.import_key_pair, KeyName='mine', PublicKeyMaterial=b'ssh-rsa AAAA')
        self.assertEqual(self.launch('key', KeyName='mine')['KeyName'], 'mine')
        self.assertEqual(self.ec2.describe_key_pairs(KeyNames=['mine'])['KeyPairs'][0]['KeyPairId'], made['KeyPairId'])
        self.ec2.delete_key_pair(KeyName='mine')
        self.fails('InvalidKeyPair.NotFound', 400, self.ec2.describe_key_pairs, KeyNames=['mine'])

    def test_a_cluster_placement_group_holds_its_instances_in_one_zone(self):
        tags = [{'ResourceType': 'placement-group', 'Tags': [{'Key': 'job', 'Value': 'g7'}]}]
        made = self.ec2.create_placement_group(GroupName='near', Strategy='cluster', TagSpecifications=tags)['PlacementGroup']
        self.assertEqual((made['GroupName'], made['State'], made['Tags']), ('near', 'available', [{'Key': 'job', 'Value': 'g7'}]))
        self.fails('InvalidPlacementGroup.Duplicate', 400, self.ec2.create_placement_group, GroupName='near', Strategy='cluster')
        self.fails('InvalidParameterValue', 400, self.ec2.create_placement_group, GroupName='other', Strategy='heap')
        self.fails('InvalidParameterValue', 400, self.ec2.create_placement_group, GroupName='other', Strategy='cluster', TagSpecifications=[
            {'ResourceType': 'instance', 'Tags': [{'Key': 'k', 'Value': 'v'}]}])
        self.fails('DryRunOperation', 412, self.ec2.create_placement_group, GroupName='other', Strategy='cluster', DryRun=True)
        by = lambda value: self.ec2.describe_placement_groups(Filters=[{'Name': 'tag:job', 'Values': [value]}])['PlacementGroups']
        self.assertEqual([g['GroupId'] for g in by('g7')], [made['GroupId']])
        self.assertEqual(by('g8'), [])
        self.fails('InvalidPlacementGroup.Unknown', 400, self.ec2.describe_placement_groups, GroupNames=['other'])
        place = lambda zone: {'Placement': {'AvailabilityZone': zone, 'GroupName': 'near'}}
        first = self.launch('near-1', **place('us-east-1a'))
        self.assertEqual(first['Placement']['GroupName'], 'near')
        self.fails('InvalidParameterValue', 400, self.ec2.run_instances, **self.args('near-2', **place('us-east-1b')))
        self.fails('InvalidPlacementGroup.InUse', 400, self.ec2.delete_placement_group, GroupName='near')
        self.ec2.terminate_instances(InstanceIds=[first['InstanceId']])
        self.sim.wait('terminated', instance=first['InstanceId'])
        self.ec2.delete_placement_group(GroupName='near')
        self.fails('InvalidPlacementGroup.Unknown', 400, self.ec2.delete_placement_group, GroupName='near')

    def test_efa_interfaces_are_where_the_type_has_them(self):
        def ask(code, status, kind, *nics):
            self.fails(code, status, self.ec2.run_instances, **self.args('efa', InstanceType=kind, DryRun=True, NetworkInterfaces=[
                {'NetworkCardIndex': card, 'DeviceIndex': device, 'InterfaceType': of} for card, device, of in nics]))

        primary, second = (0, 0, 'interface'), [(k, 0, 'efa-only') for k in (1, 2, 3)]
        ask('DryRunOperation', 412, 'p4d.24xlarge', primary, (0, 1, 'efa-only'), *second)
        ask('DryRunOperation', 412, 'g5.8xlarge', (0, 0, 'efa'))
        ask('InvalidParameterCombination', 400, 'g5.xlarge', (0, 0, 'efa'))
        ask('InvalidParameterCombination', 400, 'p4d.24xlarge', (0, 0, 'efa-only'))
        ask('InvalidParameterCombination', 400, 'p4d.24xlarge', (0, 0, 'efa'), (0, 1, 'efa-only'), *second)
        ask('InvalidParameterValue', 400, 'p4d.24xlarge', primary, (1, 0, 'efa-only'), (1, 0, 'efa-only'))
        ask('InvalidParameterValue', 400, 'p4d.24xlarge', primary, (4, 0, 'efa-only'))
        ask('InvalidParameterValue', 400, 'p4d.24xlarge', (0, 0, 'efi'))

    def test_account_attributes(self):
        got = self.ec2.describe_account_attributes(AttributeNames=['default-vpc'])['AccountAttributes']
        self.assertEqual(got[0]['AttributeValues'][0]['AttributeValue'], self.ec2.describe_vpcs()['Vpcs'][0]['VpcId'])
        self.fails('InvalidParameterValue', 400, self.ec2.describe_account_attributes, AttributeNames=['colour'])

    def test_services_of_the_price_list(self):
        c = self.client('pricing')
        s = c.describe_services(ServiceCode='AmazonEC2')['Services'][0]
        self.assertIn('instanceType', s['AttributeNames'])
        self.assertIn('AmazonEC2', [x['ServiceCode'] for x in c.describe_services()['Services']])
        pages = list(c.get_paginator('get_attribute_values').paginate(ServiceCode='AmazonEC2', AttributeName='instanceType',
                                                                     PaginationConfig={'PageSize': 10}))
        values = [v['Value'] for p in pages for v in p['AttributeValues']]
        self.assertGreater(len(pages), 2)
        self.assertEqual(len(values), len(set(values)))
        self.assertIn('p5.48xlarge', values)
        self.fails('InvalidParameterException', 400, c.describe_services, ServiceCode='NoSuch')
        self.fails('InvalidParameterException', 400, c.get_attribute_values, ServiceCode='AmazonEC2', AttributeName='colour')


if __name__ == '__main__':
    unittest.main(warnings='ignore')
