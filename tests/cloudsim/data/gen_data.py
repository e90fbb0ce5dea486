#!/usr/bin/env python3
"""Makes the files of data/ out of the GPU catalog and the supply traces.

Run once by hand when the catalog changes: gen_data.py CATALOG_DIR TRACES_DIR OUT_DIR. The build and
the tests use only the committed output. Nothing is estimated; what the sources lack is listed in
data/PROVENANCE.md.
"""
import collections
import csv
import json
import os
import sys

ZONE_PREFIX = {
    'ap-northeast-3': 'apne3', 'eu-west-3': 'euw3', 'sa-east-1': 'sae1', 'me-south-1': 'mes1',
    'af-south-1': 'afs1', 'ap-east-1': 'ape1', 'eu-south-1': 'eus1', 'eu-central-2': 'euc2',
    'il-central-1': 'ilc1', 'ap-south-2': 'aps2', 'ap-southeast-5': 'apse5',
}
OPT_IN = {'af-south-1', 'ap-east-1', 'ap-south-2', 'ap-southeast-3', 'ap-southeast-5', 'eu-central-2',
          'eu-south-1', 'eu-south-2', 'il-central-1', 'me-central-1', 'me-south-1'}
# Zone names are aliases of each account; ours are these. Elsewhere letters follow the ids.
ALIAS = {'us-east-1': ['use1-az4', 'use1-az6', 'use1-az1', 'use1-az2', 'use1-az3', 'use1-az5']}
# gpu_name of the catalog: (name as EC2 reports it, manufacturer, MiB per GPU as EC2 reports it)
GPU = {
    'K520': ('K520', 'NVIDIA', 4096), 'K80': ('K80', 'NVIDIA', 12288), 'M60': ('M60', 'NVIDIA', 8192),
    'V100-16GB': ('V100', 'NVIDIA', 16384), 'V100-32GB': ('V100', 'NVIDIA', 32768),
    'A100-40GB': ('A100', 'NVIDIA', 40960), 'A100-80GB': ('A100', 'NVIDIA', 81920),
    'H100-80GB-SXM': ('H100', 'NVIDIA', 81920), 'H200': ('H200', 'NVIDIA', 144384),
    'B200': ('B200', 'NVIDIA', 183359), 'B300': ('B300', 'NVIDIA', 275040),
    'T4': ('T4', 'NVIDIA', 16384), 'T4G': ('T4g', 'NVIDIA', 16384), 'A10G': ('A10G', 'NVIDIA', 22888),
    'L4': ('L4', 'NVIDIA', 22888), 'L40S': ('L40S', 'NVIDIA', 45776),
    'RTXPRO4500-32GB': ('RTX PRO 4500', 'NVIDIA', 32768),
    'RTXPRO6000-96GB': ('RTX PRO Server 6000', 'NVIDIA', 98304),
    'RadeonProV520': ('Radeon Pro V520', 'AMD', 8192),
}
EFA = {  # type: (interfaces, network cards)
    'p3dn.24xlarge': (1, 1), 'p4d.24xlarge': (4, 4), 'p4de.24xlarge': (4, 4), 'p5.4xlarge': (1, 1),
    'p5.48xlarge': (32, 32), 'p5e.48xlarge': (32, 32), 'p5en.48xlarge': (16, 16),
    'p6-b200.48xlarge': (8, 8), 'p6-b300.48xlarge': (16, 17), 'g6e.48xlarge': (4, 4),
    'g7.48xlarge': (2, 2), 'g7e.48xlarge': (4, 4),
}
LAMBDA_REGION = {
    'us-east-1': 'Virginia, USA', 'us-east-2': 'Washington DC, USA', 'us-east-3': 'Washington DC, USA',
    'us-west-1': 'California, USA', 'us-west-2': 'Arizona, USA', 'us-west-3': 'Utah, USA',
    'us-south-1': 'Texas, USA', 'us-south-2': 'North Texas, USA', 'us-south-3': 'Central Texas, USA',
    'us-midwest-1': 'Illinois, USA', 'us-midwest-2': 'Illinois, USA', 'us-southeast-1': 'Georgia, USA',
    'europe-central-1': 'Germany', 'asia-south-1': 'India', 'asia-northeast-1': 'Osaka, Japan',
    'asia-northeast-2': 'Tokyo, Japan', 'me-west-1': 'Israel', 'australia-east-1': 'Australia',
}
LAMBDA_GPU = {
    'A10': 'A10 (24 GB PCIe)', 'A6000': 'A6000 (48 GB)', 'B200': 'B200 (180 GB SXM6)',
    'GH200-96GB': 'GH200 (96 GB)', 'H100-80GB-PCIe': 'H100 (80 GB PCIe)',
    'H100-80GB-SXM': 'H100 (80 GB SXM5)', 'QuadroRTX6000': 'Quadro RTX 6000 (24 GB)',
    'A100-80GB': 'A100 (80 GB SXM4)', 'V100-16GB': 'Tesla V100 (16 GB)',
}
# The instant of each series at the emulator's start; history before it is real time.
ANCHOR = {
    'v100-2023': '2023-03-12T09:20:00Z', 'us-east-1-2021': '2021-05-01T00:00:00Z',
    'sa-east-1-2020': '2020-05-20T00:00:00Z', 'region-average': '2026-01-19T00:00:00Z',
    'aws-02-15-2023': '2023-03-12T09:20:00Z', 'aws-08-27-2023': '2023-09-01T00:00:00Z',
}


# A few types without a GPU, as any listing has many: name, vCPUs, GiB, on-demand price of the vendor's page in
# the regions below (the catalog has GPU types only). Not sold as spot here.
PLAIN = (('t3.micro', 2, 1, '0.0104'), ('m5.large', 2, 8, '0.096'), ('m5.xlarge', 4, 16, '0.192'),
         ('c5.large', 2, 4, '0.085'))
PLAIN_REGIONS = ('us-east-1', 'us-east-2', 'us-west-2')


def rows(path):
    with open(path, newline='') as f:
        return list(csv.DictReader(f))


def write(out, name, header, data):
    with open(os.path.join(out, name), 'w', newline='') as f:
        w = csv.writer(f, lineterminator='\n')
        w.writerow(header)
        w.writerows(data)
    print('%-28s %6d rows' % (name, len(data)))


def zones_of(prices, cross):
    found = collections.defaultdict(set)
    for r in prices:
        found[r['region']]
        if r['zone']:
            found[r['region']].add(r['zone'])
    for r in cross:
        if r['region'] in found:
            found[r['region']].add(r['zone'])
    zones = []
    for region in sorted(found):
        ids = sorted(z for z in found[region] if z.count('-') == 1)
        local = sorted(z for z in found[region] if z.count('-') > 1)
        if not ids:
            ids = ['%s-az%d' % (ZONE_PREFIX[region], i) for i in (1, 2, 3)]
        ids = ALIAS.get(region, ids)
        for i, z in enumerate(ids):
            zones.append((region, region + 'abcdefgh'[i], z, 'availability-zone', region in OPT_IN))
        for z in local:
            place = z.split('-')[1]
            name = '%s-%s-%sa' % (region, place[:-1], place[-1])
            zones.append((region, name, z, 'local-zone', region in OPT_IN))
    return zones


def aws_types(types, used):
    out = []
    for r in types:
        t = r['instance_type']
        if r['provider'] != 'aws' or t not in used:
            continue
        name, maker, mib = GPU[r['gpu_name']]
        count = float(r['gpu_count'])
        part = 0 if count >= 1 else count
        if part:
            mib = {0.125: 2861, 0.25: 5722, 0.5: 11444}[part]
        net = r['interconnect'].split(';')[0]
        efa = EFA.get(t, (1, 1) if 'EFA' in r['interconnect'] else (0, 1))
        out.append((t, name, maker, 0 if part else int(count), part, mib, r['vcpus'],
                    int(float(r['mem_gib']) * 1024), 'arm64' if t.startswith('g5g.') else 'x86_64',
                    net, efa[0], efa[1], 'false' if r['notes'].startswith('legacy') else 'true'))
    for name, vcpus, gib, _ in PLAIN:
        out.append((name, '', '', 0, 0, 0, vcpus, gib * 1024, 'x86_64', 'Up to 10 Gigabit', 0, 1, 'true'))
    return out


def aws_pools(prices, zones):
    by_region = collections.defaultdict(list)
    for region, _, zid, kind, _ in zones:
        if kind == 'availability-zone':
            by_region[region].append(zid)
    zonal = {(r['region'], r['instance_type']) for r in prices if r['zone']}
    out = []
    for r in prices:
        key = (r['region'], r['instance_type'])
        if r['zone']:
            where = [r['zone']]
        elif key in zonal:
            continue
        else:
            where = by_region[r['region']]
        for z in where:
            out.append((r['region'], z, r['instance_type'], r['on_demand_usd_hour'], r['spot_usd_hour'],
                        r['as_of']))
    for region in PLAIN_REGIONS:
        for name, _, _, usd in PLAIN:
            out += [(region, z, name, usd, '', '2026-11-21') for z in by_region[region]]
    return sorted(out)


# The vendor's own answers in full: it tells a price again about once a day though it did not change.
FULL = ('us-east-1-2021', 'sa-east-1-2020')


def history(catalog, zones, pools):
    names = {z[1] for z in zones}
    sold = {(p[0], p[2]) for p in pools}
    src = [('v100-2023', 'aws_v100_9zones_2023-02_2023-04'), ('us-east-1-2021', 'aws_us-east-1_2021-03_2021-05'),
           ('sa-east-1-2020', 'aws_sa-east-1_2019-12_2020-06'),
           ('region-average', 'aws_region-average_2025-03_2026-01')]
    taken, out = set(), []
    for label, name in src:
        series = collections.defaultdict(list)
        for r in rows(os.path.join(catalog, 'spot_history', name + '.csv')):
            if (r['region'], r['instance_type']) not in sold or (r['zone'] and r['zone'] not in names):
                continue
            ts = r['timestamp'] if 'T' in r['timestamp'] else r['timestamp'] + 'T00:00:00Z'
            series[(r['region'], r['zone'], r['instance_type'])].append((ts, r['spot_usd_hour']))
        for key in sorted(series):
            if key in taken:
                continue
            taken.add(key)
            last = None
            for ts, usd in sorted(series[key]):
                if usd != last or label in FULL:
                    out.append((label,) + key + (ts, usd))
                last = usd
    return out


def supply(traces):
    out = []
    for folder, kind, start in (('1-node/aws-02-15-2023', 'aws-02-15-2023', '2023-02-15T22:08:16Z'),
                                ('16-node/aws-08-27-2023', 'aws-08-27-2023', '2023-08-27T00:00:00Z')):
        d = os.path.join(traces, 'availability', folder)
        for f in sorted(os.listdir(d)):
            zone = f.split('_')[0]
            doc = json.load(open(os.path.join(d, f)))
            runs, prev, n = [], None, 0
            for v in doc['data'] + [None]:
                if v == prev:
                    n += 1
                    continue
                if prev is not None:
                    runs.append('%dx%d' % (prev, n))
                prev, n = v, 1
            out.append((kind, zone[:-1], zone, 'p3.2xlarge', start, int(doc['metadata']['gap_seconds']),
                        ' '.join(runs)))
    return out


def lambda_types(types, prices):
    usd = {r['instance_type']: r['on_demand_usd_hour'] for r in prices if r['provider'] == 'lambda'}
    out = []
    for r in types:
        if r['provider'] != 'lambda':
            continue
        t, g = r['instance_type'], r['gpu_name']
        if g == 'A100-40GB':
            desc = 'A100 (40 GB %s)' % ('SXM4' if 'sxm4' in t else 'PCIe')
        else:
            desc = LAMBDA_GPU[g]
        out.append((t, '%sx %s' % (r['gpu_count'], desc), desc, round(float(usd[t]) * 100), r['vcpus'],
                    r['mem_gib'], 512, r['gpu_count']))
    return out


def main():
    catalog, traces, out = sys.argv[1:4]
    prices = [r for r in rows(os.path.join(catalog, 'prices.csv')) if 'us-gov' not in r['region']]
    aws = [r for r in prices if r['provider'] == 'aws']
    types = rows(os.path.join(catalog, 'instance_types.csv'))
    cross = rows(os.path.join(catalog, 'spot_history', 'aws_all-regions_2022-05-31.csv'))
    zones = zones_of(aws, cross)
    pools = aws_pools(aws, zones)
    write(out, 'aws_zones.csv', ['region', 'zone', 'zone_id', 'type', 'opt_in'],
          [z[:4] + ('true' if z[4] else 'false',) for z in zones])
    write(out, 'aws_types.csv', ['instance_type', 'gpu', 'manufacturer', 'gpus', 'partition', 'gpu_mem_mib',
                                 'vcpus', 'mem_mib', 'arch', 'network', 'efa', 'cards', 'current'],
          aws_types(types, {p[2] for p in pools}))
    write(out, 'aws_pools.csv', ['region', 'zone_id', 'instance_type', 'on_demand', 'spot', 'as_of'], pools)
    write(out, 'aws_history.csv', ['source', 'region', 'zone', 'instance_type', 'timestamp', 'spot'],
          history(catalog, zones, pools))
    write(out, 'aws_anchor.csv', ['source', 'anchor'], sorted(ANCHOR.items()))
    write(out, 'aws_supply.csv', ['set', 'region', 'zone', 'instance_type', 'start', 'gap_s', 'runs'],
          supply(traces))
    adv = {}
    for r in sorted(rows(os.path.join(catalog, 'interruption.csv')), key=lambda r: r['as_of']):
        adv[(r['region'], r['instance_type'])] = (r['bucket_index'], r['savings_pct'], r['as_of'])
    write(out, 'aws_advisor.csv', ['region', 'instance_type', 'bucket', 'savings', 'as_of'],
          [k + v for k, v in sorted(adv.items()) if 'us-gov' not in k[0]])
    write(out, 'lambda_types.csv', ['instance_type', 'description', 'gpu_description', 'cents', 'vcpus',
                                    'memory_gib', 'storage_gib', 'gpus'], lambda_types(types, prices))
    lam = sorted({r['region'] for r in prices if r['provider'] == 'lambda'})
    write(out, 'lambda_regions.csv', ['region', 'description'], [(r, LAMBDA_REGION.get(r, r)) for r in lam])


main()
