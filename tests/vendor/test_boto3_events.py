#!/usr/bin/env python3
"""boto3 drives cloudsim's own events and its paid capacity. These are events in queues, capacity reservations,
disrupted zones, scheduled events, fulfilment rates. argv[1] is the emulator's program. Exit 77 (skipped) without boto3."""
import datetime
import json
import unittest

from test_boto3 import Base, TYPE, UTC


class Events(Base):
    """EventBridge's events in SQS, as deploy/iam/aws-interruptions.yaml sets them up."""

    def setUp(self):
        self.sqs = self.client('sqs')
        self.url = self.sqs.get_queue_url(QueueName='spotbroker-interruptions')['QueueUrl']
        self.drain()

    def drain(self):
        while self.take(0):
            pass

    def take(self, wait=5):
        got = self.sqs.receive_message(QueueUrl=self.url, MaxNumberOfMessages=10, WaitTimeSeconds=wait).get('Messages', [])
        if got:
            r = self.sqs.delete_message_batch(QueueUrl=self.url, Entries=[
                {'Id': str(k), 'ReceiptHandle': m['ReceiptHandle']} for k, m in enumerate(got)])
            self.assertEqual(len(r['Successful']), len(got))
            self.assertEqual(r['Failed'], [])
        return [json.loads(m['Body']) for m in got]

    def until(self, seen):
        events = []
        for _ in range(20):
            events += self.take()
            if seen(events):
                return events
        self.fail('never came; had %s' % events)

    def test_a_reclaim_is_told_in_the_vendors_words(self):
        i = self.launch('ev-1')['InstanceId']
        self.until(lambda es: any(e['detail'].get('state') == 'running' for e in es))
        self.sim.ctl('POST', '/reclaim', {'instance': i, 'notice_s': 1, 'rebalance_s_before': 0.3})
        events = self.until(lambda es: any(e['detail'].get('state') == 'terminated' for e in es))
        kinds = [e['detail-type'] for e in events]
        self.assertLess(kinds.index('EC2 Instance Rebalance Recommendation'), kinds.index('EC2 Spot Instance Interruption Warning'))
        for e in events:
            self.assertEqual((e['source'], e['region'], e['account']), ('aws.ec2', 'us-east-1', '123456789012'))
            self.assertEqual(e['detail']['instance-id'], i)
        warning = [e for e in events if 'Warning' in e['detail-type']][0]
        self.assertEqual(warning['detail']['instance-action'], 'terminate')

    def test_an_owner_who_reclaims_a_reservation_is_told_in_the_vendors_words(self):
        cr = self.sim.ctl('POST', '/aws/reservation', {'region': 'us-east-1', 'zone': 'use1-az4', 'type': TYPE, 'interruptible': True})['id']
        i = self.launch('ev-3', InstanceMarketOptions={'MarketType': 'interruptible-capacity-reservation'},
                        CapacityReservationSpecification={'CapacityReservationTarget': {'CapacityReservationId': cr}})['InstanceId']
        self.sim.ctl('POST', '/aws/reservation', {'reclaim': cr, 'notice_s': 1})
        events = self.until(lambda es: any(e['detail'].get('state') == 'terminated' for e in es))
        self.assertNotIn('EC2 Spot Instance Interruption Warning', [e['detail-type'] for e in events])
        warning = [e for e in events if e['detail-type'] == 'EC2 Capacity Reservation Instance Interruption Warning'][0]
        detail = warning['detail']
        self.assertEqual((detail['instance-id'], detail['instance-action'], detail['azId']), (i, 'terminate', 'use1-az4'))
        self.assertRegex(detail['instance-termination-time'], '^20..-..-..T..:..:..Z$')

    def test_events_may_come_twice_with_one_id(self):
        self.sim.ctl('POST', '/aws/events', {'twice': True})
        try:
            self.launch('ev-2')
            events = self.until(lambda es: len(es) >= 2)
        finally:
            self.sim.ctl('POST', '/aws/events', {'twice': False})
        self.assertEqual(events[0]['id'], events[1]['id'])

    def test_a_message_hides_and_comes_again_until_it_is_deleted(self):
        url = self.sqs.create_queue(QueueName='own', Attributes={'VisibilityTimeout': '1'})['QueueUrl']
        self.sqs.send_message(QueueUrl=url, MessageBody='hello')
        first = self.sqs.receive_message(QueueUrl=url)['Messages'][0]
        self.assertNotIn('Messages', self.sqs.receive_message(QueueUrl=url))
        again = self.sqs.receive_message(QueueUrl=url, WaitTimeSeconds=5)['Messages'][0]
        self.assertEqual(first['MessageId'], again['MessageId'])
        self.assertNotEqual(first['ReceiptHandle'], again['ReceiptHandle'])
        self.sqs.delete_message(QueueUrl=url, ReceiptHandle=first['ReceiptHandle'])
        left = self.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=['All'])['Attributes']
        self.assertEqual(left['ApproximateNumberOfMessagesNotVisible'], '1')
        self.sqs.delete_message(QueueUrl=url, ReceiptHandle=again['ReceiptHandle'])
        self.assertNotIn('Messages', self.sqs.receive_message(QueueUrl=url, WaitTimeSeconds=2))

    def test_a_delayed_message_is_not_there_at_once(self):
        url = self.sqs.create_queue(QueueName='later')['QueueUrl']
        self.sqs.send_message(QueueUrl=url, MessageBody='hello', DelaySeconds=1)
        self.assertNotIn('Messages', self.sqs.receive_message(QueueUrl=url))
        self.assertEqual(self.sqs.receive_message(QueueUrl=url, WaitTimeSeconds=5)['Messages'][0]['Body'], 'hello')
        self.fails('InvalidParameterValue', 400, self.sqs.send_message, QueueUrl=url, MessageBody='x', DelaySeconds=901)

    def test_a_long_poll_waits_no_longer_than_it_says(self):
        began = datetime.datetime.now(UTC)
        self.assertNotIn('Messages', self.sqs.receive_message(
            QueueUrl=self.sqs.create_queue(QueueName='quiet')['QueueUrl'], WaitTimeSeconds=1))
        self.assertGreaterEqual((datetime.datetime.now(UTC) - began).total_seconds(), 0.9)

    def test_wrong_calls_are_refused_by_the_vendors_codes(self):
        none = self.url.replace('spotbroker-interruptions', 'none')
        self.fails('AWS.SimpleQueueService.NonExistentQueue', 400, self.sqs.receive_message, QueueUrl=none)
        self.fails('AWS.SimpleQueueService.NonExistentQueue', 400, self.sqs.get_queue_url, QueueName='none')
        self.fails('InvalidParameterValue', 400, self.sqs.receive_message, QueueUrl=self.url, MaxNumberOfMessages=11)
        self.fails('InvalidParameterValue', 400, self.sqs.receive_message, QueueUrl=self.url, WaitTimeSeconds=21)
        self.fails('ReceiptHandleIsInvalid', 400, self.sqs.delete_message, QueueUrl=self.url, ReceiptHandle='x')
        self.fails('AWS.SimpleQueueService.EmptyBatchRequest', 400, self.sqs.delete_message_batch, QueueUrl=self.url, Entries=[])
        self.fails('UnrecognizedClientException', 400, self.client('sqs', key='AKIANOBODY').receive_message, QueueUrl=self.url)


class Reserved(Base):
    def reserve(self, **more):
        at = {'region': 'us-east-1', 'zone': 'use1-az4', 'type': TYPE, 'count': 2}
        at.update(more)
        return self.sim.ctl('POST', '/aws/reservation', at)['id']

    def tearDown(self):
        for r in self.ec2.describe_capacity_reservations()['CapacityReservations']:
            self.sim.ctl('POST', '/aws/reservation', {'reclaim' if r['Interruptible'] else 'cancel': r['CapacityReservationId']})

    def into(self, token, cr, n=1, **more):
        return self.ec2.run_instances(**self.args(token, InstanceMarketOptions=None, MinCount=n, MaxCount=n,
            CapacityReservationSpecification={'CapacityReservationTarget': {'CapacityReservationId': cr}}, **more))['Instances']

    def free(self, cr):
        return self.ec2.describe_capacity_reservations(CapacityReservationIds=[cr])['CapacityReservations'][0]['AvailableInstanceCount']

    def test_a_targeted_reservation_is_used_up_by_those_that_name_it(self):
        cr = self.reserve()
        self.launch('rs-1', InstanceMarketOptions=None)
        self.assertEqual(self.free(cr), 2)
        got = self.into('rs-2', cr, 2)
        self.assertEqual([i['CapacityReservationId'] for i in got], [cr, cr])
        self.assertNotIn('InstanceLifecycle', got[0])
        self.assertEqual(self.free(cr), 0)
        self.fails('ReservationCapacityExceeded', 400, self.into, 'rs-3', cr)
        self.ec2.terminate_instances(InstanceIds=[i['InstanceId'] for i in got])
        self.assertEqual(self.free(cr), 2)

    def test_an_open_reservation_is_used_up_by_anybody_who_does_not_say_no(self):
        cr = self.reserve(open=True)
        none = {'CapacityReservationPreference': 'none'}
        self.launch('rs-4', InstanceMarketOptions=None, CapacityReservationSpecification=none)
        self.launch('rs-5')
        self.assertEqual(self.free(cr), 2)
        self.assertEqual(self.launch('rs-6', InstanceMarketOptions=None)['CapacityReservationId'], cr)
        self.assertEqual(self.free(cr), 1)

    def test_a_capacity_block_needs_its_market(self):
        cr = self.reserve(block=True)
        block = {'InstanceMarketOptions': {'MarketType': 'capacity-block'}}
        self.fails('InvalidParameterCombination', 400, self.into, 'rs-7', cr)
        self.fails('MissingParameter', 400, self.launch, 'rs-8', **block)
        target = {'CapacityReservationSpecification': {'CapacityReservationTarget': {'CapacityReservationId': cr}}}
        got = self.launch('rs-9', **block, **target)
        self.assertEqual((got['InstanceLifecycle'], got['CapacityReservationId']), ('capacity-block', cr))
        self.fails('InvalidParameterCombination', 400, self.launch, 'rs-10', **target)

    def test_an_interruptible_one_needs_its_market_and_its_owner_reclaims_it(self):
        cr, lent = self.reserve(), self.reserve(interruptible=True, count=3, owner='210987654321')
        market = {'InstanceMarketOptions': {'MarketType': 'interruptible-capacity-reservation'}}
        spot = {'InstanceMarketOptions': dict(market['InstanceMarketOptions'], SpotOptions={'SpotInstanceType': 'one-time'})}
        target = {'CapacityReservationSpecification': {'CapacityReservationTarget': {'CapacityReservationId': lent}}}
        self.fails('InvalidParameterCombination', 400, self.into, 'rs-14', lent)
        self.fails('MissingParameter', 400, self.launch, 'rs-15', **market)
        self.fails('InvalidParameterCombination', 400, self.launch, 'rs-16', **spot, **target)
        self.fails('InvalidParameterCombination', 400, self.launch, 'rs-17', **market, CapacityReservationSpecification={
            'CapacityReservationTarget': {'CapacityReservationId': cr}})
        got = self.launch('rs-18', MinCount=2, MaxCount=2, **market, **target)
        self.assertEqual((got['InstanceLifecycle'], got['CapacityReservationId']), ('interruptible-capacity-reservation', lent))
        shown = self.ec2.describe_capacity_reservations(CapacityReservationIds=[lent])['CapacityReservations'][0]
        self.assertEqual((shown['Interruptible'], shown['OwnerId'], shown['InstanceMatchCriteria'], shown['AvailableInstanceCount']),
                         (True, '210987654321', 'targeted', 1))
        self.fails('ReservationCapacityExceeded', 400, self.launch, 'rs-19', MinCount=2, MaxCount=2, **market, **target)
        # Unused capacity goes first: nobody is warned.
        self.assertEqual(self.sim.ctl('POST', '/aws/reservation', {'reclaim': lent, 'count': 1})['instances'], [])
        self.assertEqual(self.free(lent), 0)
        took = self.sim.ctl('POST', '/aws/reservation', {'reclaim': lent, 'count': 1, 'notice_s': 1})['instances']
        self.assertEqual(len(took), 1)
        self.fails('ReservationCapacityExceeded', 400, self.launch, 'rs-20', **market, **target)
        self.sim.wait(event='terminated', instance=took[0])
        live = self.ec2.describe_instances(Filters=[{'Name': 'instance-lifecycle', 'Values': ['interruptible-capacity-reservation']}, {
            'Name': 'instance-state-name', 'Values': ['pending', 'running']}])['Reservations']
        self.assertEqual(sum(len(r['Instances']) for r in live), 1)
        for doc in ({'cancel': lent}, {'extend': lent, 'ends_in_s': 60}):
            with self.assertRaises(Exception):
                self.sim.ctl('POST', '/aws/reservation', doc)

    def test_a_reservation_elsewhere_or_gone_is_refused(self):
        cr = self.reserve(zone='use1-az6')
        self.fails('InvalidParameterValue', 400, self.into, 'rs-11', cr)
        self.fails('InvalidCapacityReservationId.NotFound', 400, self.into, 'rs-12', 'cr-0123456789abcdef0')
        self.sim.ctl('POST', '/aws/reservation', {'cancel': cr})
        self.fails('CapacityReservationNotActive', 400, self.into, 'rs-13', cr, Placement={'AvailabilityZone': 'us-east-1b'})
        active = self.ec2.describe_capacity_reservations(Filters=[{'Name': 'state', 'Values': ['active']}])
        self.assertNotIn(cr, [r['CapacityReservationId'] for r in active['CapacityReservations']])


class Fulfilment(Base):
    """EC2 Capacity Manager tells how much of the account's spot requests came."""

    def setUp(self):
        self.hour = datetime.datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
        self.ec2.enable_capacity_manager()

    def tearDown(self):
        self.ec2.disable_capacity_manager()

    def ask(self, **more):
        args = {'MetricNames': ['spot-inst-az-fulfillment-rate', 'spot-capacity-total-requested-vcpu',
                                'spot-avg-inst-az-count-per-requested-vcpu'],
                'StartTime': self.hour - datetime.timedelta(hours=24), 'EndTime': self.hour, 'Period': 3600,
                'GroupBy': ['instance-type', 'availability-zone-id']}
        args.update(more)
        return self.ec2.get_capacity_manager_metric_data(**args)

    def test_the_manager_is_enabled_in_one_region(self):
        here = self.ec2.get_capacity_manager_attributes()
        self.assertEqual((here['CapacityManagerStatus'], here['IngestionStatus']), ('enabled', 'ingestion-complete'))
        self.assertEqual(here['LatestDatapointTimestamp'], self.hour - datetime.timedelta(hours=1))
        west = self.client('ec2', 'us-west-2')
        self.assertEqual(west.get_capacity_manager_attributes()['CapacityManagerStatus'], 'disabled')
        self.fails('UnsupportedOperation', 400, west.enable_capacity_manager)
        self.assertEqual(self.ec2.disable_capacity_manager()['CapacityManagerStatus'], 'disabled')
        self.assertNotIn('LatestDatapointTimestamp', self.ec2.get_capacity_manager_attributes())
        self.fails('UnsupportedOperation', 400, self.ask)
        self.fails('DryRunOperation', 412, self.ask, DryRun=True)

    def test_rates_come_by_hour_type_and_zone_in_pages(self):
        for zone, ago, requested, fulfilled, pools in (('use1-az4', 2, 40, 10, 1), ('use1-az4', 3, 8, 8, 2), ('use1-az6', 2, 4, 0, 1)):
            self.sim.ctl('POST', '/aws/fulfilment', {'region': 'us-east-1', 'zone': zone, 'type': TYPE, 'requested': requested,
                                                     'fulfilled': fulfilled, 'combinations': pools, 'hours_ago': ago})
        self.sim.ctl('POST', '/aws/fulfilment', {'region': 'us-west-2', 'zone': 'usw2-az1', 'type': TYPE, 'requested': 4, 'fulfilled': 4})
        # Of the hour that is not over there are no data.
        self.sim.ctl('POST', '/aws/fulfilment', {'region': 'us-east-1', 'zone': 'use1-az1', 'type': TYPE, 'requested': 4, 'fulfilled': 4, 'hours_ago': 0})
        region = [{'DimensionCondition': {'Dimension': 'resource-region', 'Comparison': 'equals', 'Values': ['us-east-1']}}]
        rows, token = [], None
        while token != '':
            page = self.ask(FilterBy=region, MaxResults=2, **({'NextToken': token} if token else {}))
            self.assertLessEqual(len(page['MetricDataResults']), 2)
            rows, token = rows + page['MetricDataResults'], page.get('NextToken', '')
        got = {(r['Dimension']['AvailabilityZoneId'], (self.hour - r['Timestamp']).total_seconds() // 3600):
               tuple(v['Value'] for v in r['MetricValues']) for r in rows}
        self.assertEqual(got, {('use1-az4', 2): (25, 40, 1), ('use1-az4', 3): (100, 8, 2), ('use1-az6', 2): (0, 4, 1)})
        self.assertEqual({r['Dimension']['InstanceType'] for r in rows}, {TYPE})
        west = [{'DimensionCondition': {'Dimension': 'resource-region', 'Comparison': 'in', 'Values': ['us-west-2', 'us-west-1']}}]
        self.assertEqual(len(self.ask(FilterBy=west)['MetricDataResults']), 1)
        day = self.ask(FilterBy=region, Period=86400, GroupBy=['resource-region'])['MetricDataResults']
        self.assertEqual([v['Value'] for v in day[0]['MetricValues']][1], 52)

    def test_wrong_questions_are_refused(self):
        wrong = 'InvalidParameterValue'
        self.fails(wrong, 400, self.ask, MetricNames=['spot-fulfilment'])
        self.fails(wrong, 400, self.ask, GroupBy=['zone'])
        self.fails(wrong, 400, self.ask, Period=5400)
        self.fails(wrong, 400, self.ask, Period=7 * 3600)
        self.fails(wrong, 400, self.ask, StartTime=self.hour)
        self.fails(wrong, 400, self.ask, StartTime=self.hour - datetime.timedelta(days=91))
        for condition in ({'Dimension': 'zone', 'Comparison': 'equals', 'Values': ['a']},
                          {'Dimension': 'instance-type', 'Comparison': 'like', 'Values': ['a']},
                          {'Dimension': 'instance-type', 'Comparison': 'in', 'Values': []}):
            self.fails(wrong, 400, self.ask, FilterBy=[{'DimensionCondition': condition}])


class Trouble(Base):
    def test_a_disrupted_zone_fails_calls_that_touch_it_or_name_nobody(self):
        a = self.launch('tz-1')['InstanceId']
        b = self.launch('tz-2', zone='us-east-1b')['InstanceId']
        self.sim.ctl('POST', '/aws/impaired', {'zone': 'use1-az4'})
        self.fails('Unavailable', 503, self.ec2.describe_instances)
        self.fails('Unavailable', 503, self.ec2.describe_instances, InstanceIds=[a, b])
        got = self.ec2.describe_instances(InstanceIds=[b])['Reservations'][0]['Instances'][0]
        self.assertEqual(got['InstanceId'], b)
        state = {z['ZoneId']: z['State'] for z in self.ec2.describe_availability_zones()['AvailabilityZones']}
        self.assertEqual((state['use1-az4'], state['use1-az6']), ('impaired', 'available'))
        self.sim.ctl('POST', '/aws/impaired', {'zone': ''})
        self.assertTrue(self.ec2.describe_instances()['Reservations'])

    def test_scheduled_events_are_listed_by_their_code(self):
        i = self.launch('tz-3')['InstanceId']
        self.sim.wait(event='running', instance=i)
        self.sim.ctl('POST', '/maintenance', {'instance': i, 'in_s': 600})
        found = self.ec2.describe_instance_status(Filters=[{'Name': 'event.code', 'Values': ['instance-retirement']}])
        one = found['InstanceStatuses']
        self.assertEqual([s['InstanceId'] for s in one], [i])
        ahead = (one[0]['Events'][0]['NotBefore'] - datetime.datetime.now(UTC)).total_seconds()
        self.assertTrue(500 < ahead <= 601)
        self.assertEqual(self.ec2.describe_instance_status(Filters=[
            {'Name': 'event.code', 'Values': ['system-reboot']}])['InstanceStatuses'], [])

    def test_dry_runs_tell_what_is_permitted_and_do_nothing(self):
        self.fails('DryRunOperation', 412, self.launch, 'dry-1', DryRun=True)
        self.fails('DryRunOperation', 412, self.ec2.terminate_instances, InstanceIds=['i-0123456789abcdef0'], DryRun=True)
        for call in (self.ec2.describe_regions, self.ec2.describe_capacity_reservations, self.ec2.describe_instance_status):
            self.fails('DryRunOperation', 412, call, DryRun=True)
        self.fails('InvalidSubnetID.NotFound', 400, self.launch, 'dry-2', SubnetId='subnet-0123', DryRun=True)
        found = self.ec2.describe_instances(Filters=[{'Name': 'client-token', 'Values': ['dry-1']}])
        self.assertEqual(found['Reservations'], [])

    def used(self):
        live = self.ec2.describe_instances(Filters=[{'Name': 'availability-zone', 'Values': ['us-east-1b']}, {
            'Name': 'instance-state-name', 'Values': ['pending', 'running']}])['Reservations']
        return sum(len(r['Instances']) for r in live)

    def test_several_machines_come_all_or_not_at_all(self):
        self.sim.ctl('POST', '/stock', {'pool': 'aws/us-east-1/us-east-1b/%s/spot' % TYPE, 'count': 2 + self.used()})
        try:
            self.fails('InsufficientInstanceCapacity', 500, self.launch, 'gang-1', zone='us-east-1b', MinCount=3, MaxCount=3)
            got = self.ec2.run_instances(**self.args('gang-2', zone='us-east-1b', MinCount=2, MaxCount=2))['Instances']
            again = self.ec2.run_instances(**self.args('gang-2', zone='us-east-1b', MinCount=2, MaxCount=2))['Instances']
            self.assertEqual([i['InstanceId'] for i in got], [i['InstanceId'] for i in again])
            self.fails('IdempotentParameterMismatch', 400, self.launch, 'gang-2', zone='us-east-1b', MinCount=1, MaxCount=1)
        finally:
            self.sim.ctl('POST', '/stock', {'pool': 'aws/us-east-1/us-east-1b/%s/spot' % TYPE, 'count': None})


if __name__ == '__main__':
    unittest.main(warnings='ignore')
