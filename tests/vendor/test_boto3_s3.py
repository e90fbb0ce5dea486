#!/usr/bin/env python3
"""boto3 and objects: put, get, list, presigned URLs, uploads in parts. Same rules as test_boto3.py."""
import io
import os
import sys
import unittest
import urllib.error
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from test_boto3 import Base  # noqa: E402


class Objects(Base):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.s3 = cls.client('s3', signature_version='s3v4')
        cls.s3.create_bucket(Bucket='ckpt')

    def test_put_get_head_delete(self):
        for key in ('a', 'with space/and+plus/ümlaut~.bin', 'q?&=%25'):
            put = self.s3.put_object(Bucket='ckpt', Key=key, Body=b'hello', ContentType='text/x')
            got = self.s3.get_object(Bucket='ckpt', Key=key)
            self.assertEqual((got['Body'].read(), got['ETag'], got['ContentType']), (b'hello', put['ETag'], 'text/x'))
            self.assertEqual(self.s3.head_object(Bucket='ckpt', Key=key)['ContentLength'], 5)
            self.s3.delete_object(Bucket='ckpt', Key=key)
            self.fails('NoSuchKey', 404, self.s3.get_object, Bucket='ckpt', Key=key)
        self.fails('NoSuchBucket', 404, self.s3.get_object, Bucket='nobody', Key='a')

    def test_a_range_of_bytes(self):
        self.s3.put_object(Bucket='ckpt', Key='range', Body=b'0123456789')
        got = self.s3.get_object(Bucket='ckpt', Key='range', Range='bytes=2-4')
        self.assertEqual((got['Body'].read(), got['ContentRange']), (b'234', 'bytes 2-4/10'))

    def test_listing_by_prefix_in_pages_with_folders(self):
        for k in range(7):
            self.s3.put_object(Bucket='ckpt', Key='list/%d' % k, Body=b'x')
        self.s3.put_object(Bucket='ckpt', Key='list/sub/a', Body=b'x')
        pages = list(self.s3.get_paginator('list_objects_v2').paginate(Bucket='ckpt', Prefix='list/', Delimiter='/',
                                                                       PaginationConfig={'PageSize': 3}))
        self.assertEqual([o['Key'] for p in pages for o in p.get('Contents', [])], ['list/%d' % k for k in range(7)])
        self.assertEqual([c['Prefix'] for p in pages for c in p.get('CommonPrefixes', [])], ['list/sub/'])
        self.s3.delete_objects(Bucket='ckpt', Delete={'Objects': [{'Key': 'list/%d' % k} for k in range(7)]})
        left = self.s3.list_objects_v2(Bucket='ckpt', Prefix='list/')['Contents']
        self.assertEqual([o['Key'] for o in left], ['list/sub/a'])

    def test_multipart_upload(self):
        data = os.urandom(17 << 20)
        self.s3.upload_fileobj(io.BytesIO(data), 'ckpt', 'big')
        got = self.s3.get_object(Bucket='ckpt', Key='big')
        self.assertEqual(got['Body'].read(), data)
        self.assertRegex(got['ETag'], '^"[0-9a-f]{32}-[0-9]+"$')

    def test_copies_metadata_and_unfinished_uploads(self):
        put = self.s3.put_object(Bucket='ckpt', Key='from/ä b', Body=b'hello', Metadata={'epoch': '7'}, ContentType='text/x')
        self.s3.copy_object(Bucket='ckpt', Key='to', CopySource={'Bucket': 'ckpt', 'Key': 'from/ä b'},
                            CopySourceIfMatch=put['ETag'])
        got = self.s3.get_object(Bucket='ckpt', Key='to')
        self.assertEqual((got['Body'].read(), got['ContentType'], got['Metadata']), (b'hello', 'text/x', {'epoch': '7'}))
        copy = {'Bucket': 'ckpt', 'Key': 'to', 'CopySource': 'ckpt/to'}
        self.fails('InvalidRequest', 400, self.s3.copy_object, **copy)
        self.s3.copy_object(MetadataDirective='REPLACE', Metadata={'epoch': '8'}, **copy)
        self.assertEqual(self.s3.head_object(Bucket='ckpt', Key='to')['Metadata'], {'epoch': '8'})
        self.fails('PreconditionFailed', 412, self.s3.copy_object, CopySourceIfMatch='"0"', **copy)
        self.fails('NoSuchKey', 404, self.s3.copy_object, Bucket='ckpt', Key='to', CopySource='ckpt/none')
        ids = [self.s3.create_multipart_upload(Bucket='ckpt', Key=k, Metadata={'a': 'b'})['UploadId'] for k in ('up/2', 'up/1', 'x')]
        listed = self.s3.list_multipart_uploads(Bucket='ckpt', Prefix='up/')['Uploads']
        self.assertEqual([(u['Key'], u['UploadId']) for u in listed], [('up/1', ids[1]), ('up/2', ids[0])])
        tag = self.s3.upload_part(Bucket='ckpt', Key='up/1', UploadId=ids[1], PartNumber=1, Body=b'x')['ETag']
        self.s3.complete_multipart_upload(Bucket='ckpt', Key='up/1', UploadId=ids[1],
                                          MultipartUpload={'Parts': [{'PartNumber': 1, 'ETag': tag}]})
        self.assertEqual(self.s3.head_object(Bucket='ckpt', Key='up/1')['Metadata'], {'a': 'b'})
        for k, u in (('up/2', ids[0]), ('x', ids[2])):
            self.s3.abort_multipart_upload(Bucket='ckpt', Key=k, UploadId=u)

    def test_subresources_of_an_object_do_not_overwrite_it(self):
        self.s3.put_object(Bucket='ckpt', Key='kept', Body=b'precious')
        self.fails('NotImplemented', 501, self.s3.put_object_tagging, Bucket='ckpt', Key='kept',
                   Tagging={'TagSet': [{'Key': 'a', 'Value': 'b'}]})
        self.fails('NotImplemented', 501, self.s3.delete_object_tagging, Bucket='ckpt', Key='kept')
        self.fails('NotImplemented', 501, self.s3.put_object_acl, Bucket='ckpt', Key='kept', ACL='private')
        self.fails('NotImplemented', 501, self.s3.get_object_attributes, Bucket='ckpt', Key='kept', ObjectAttributes=['ETag'])
        self.fails('NotImplemented', 501, self.s3.list_object_versions, Bucket='ckpt')
        self.assertEqual(self.s3.get_object(Bucket='ckpt', Key='kept')['Body'].read(), b'precious')

    def test_multipart_rules(self):
        u = self.s3.create_multipart_upload(Bucket='ckpt', Key='mp')['UploadId']
        at = {'Bucket': 'ckpt', 'Key': 'mp', 'UploadId': u}
        self.assertIn('aws/upload/ckpt/mp', self.sim.ctl('GET', '/books')['left'])
        tags = [self.s3.upload_part(PartNumber=n, Body=b'small', **at)['ETag'] for n in (1, 2)]

        def complete(*parts):
            return self.s3.complete_multipart_upload(MultipartUpload={'Parts': [
                {'PartNumber': n, 'ETag': t} for n, t in parts]}, **at)
        self.fails('InvalidPart', 400, complete, (1, '"bad"'))
        self.fails('InvalidPartOrder', 400, complete, (2, tags[1]), (1, tags[0]))
        self.fails('EntityTooSmall', 400, complete, (1, tags[0]), (2, tags[1]))
        complete((2, tags[1]))
        self.assertEqual(self.s3.get_object(Bucket='ckpt', Key='mp')['Body'].read(), b'small')
        self.fails('NoSuchUpload', 404, self.s3.abort_multipart_upload, **at)
        self.assertEqual(self.sim.ctl('GET', '/books')['left'], [])

    def web(self, method, url, body=None):
        try:
            with urllib.request.urlopen(urllib.request.Request(url, data=body, method=method)) as r:
                return r.status, r.read()
        except urllib.error.HTTPError as e:
            return e.code, e.read()

    def test_presigned_urls(self):
        put = self.s3.generate_presigned_url('put_object', Params={'Bucket': 'ckpt', 'Key': 'pre signed'}, ExpiresIn=60)
        get = self.s3.generate_presigned_url('get_object', Params={'Bucket': 'ckpt', 'Key': 'pre signed'}, ExpiresIn=60)
        self.assertEqual(self.web('PUT', put, b'bytes')[0], 200)
        self.assertEqual(self.web('GET', get), (200, b'bytes'))
        self.assertEqual(self.web('GET', put)[0], 403)
        status, text = self.web('GET', get.replace('pre%20signed', 'other'))
        self.assertEqual(status, 403)
        self.assertIn(b'SignatureDoesNotMatch', text)

    def test_a_presigned_url_with_a_session(self):
        c = self.client('sts').assume_role(RoleArn='arn:aws:iam::123456789012:role/b', RoleSessionName='pre')['Credentials']
        s3 = self.client('s3', key=c['AccessKeyId'], secret=c['SecretAccessKey'], token=c['SessionToken'], signature_version='s3v4')
        url = s3.generate_presigned_url('put_object', Params={'Bucket': 'ckpt', 'Key': 'sess'}, ExpiresIn=60)
        self.assertEqual(self.web('PUT', url, b'x')[0], 200)

    def test_an_expired_presigned_url(self):
        url = self.s3.generate_presigned_url('get_object', Params={'Bucket': 'ckpt', 'Key': 'a'}, ExpiresIn=1)
        self.sim.ctl('POST', '/fault', {'kind': 'clock_skew', 'ms': 5000, 'match': {'service': 's3'}})
        status, text = self.web('GET', url)
        self.assertEqual(status, 403)
        self.assertIn(b'<Code>AccessDenied</Code><Message>Request has expired</Message>', text)

    def test_the_old_signature_version_is_refused_by_name(self):
        status, text = self.web('GET', self.sim.url + '/ckpt/a?AWSAccessKeyId=%s&Signature=x&Expires=2000000000'
                                % self.sim.aws['access_key_id'])
        self.assertEqual(status, 400)
        self.assertIn(b'Please use AWS4-HMAC-SHA256', text)

    def test_an_anonymous_request_is_refused(self):
        self.assertEqual(self.web('GET', self.sim.url + '/ckpt/a')[0], 403)

    def test_a_chunk_of_64_mib(self):
        data = b'\x5a' * (64 << 20)
        self.s3.put_object(Bucket='ckpt', Key='chunk', Body=data)
        self.assertEqual(self.s3.head_object(Bucket='ckpt', Key='chunk')['ContentLength'], len(data))
        self.assertEqual(self.s3.get_object(Bucket='ckpt', Key='chunk')['Body'].read(), data)


if __name__ == '__main__':
    unittest.main(warnings='ignore')
