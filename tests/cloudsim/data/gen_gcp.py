#!/usr/bin/env python3
"""Makes data/gcp_*: zones, machine types, what is offered where, and the billing catalog's SKUs, out of the GPU
catalog; and the field tables of the API, out of Google's discovery documents.

Run once by hand: gen_gcp.py CATALOG_DIR DISCOVERY_DIR OUT_DIR. The build and the tests use only the committed output.

The catalog has prices of whole machines; Google bills cores, memory, GPUs and local SSD. The parts are solved from
the machines of one family in one region: G2 sizes give GPU and core+memory exactly, A2 high and mega give the core
exactly; how core and memory share the rest is not in the data and follows Google's published us-central1 prices
(REF). The GPU takes what is left, so that the sum is the catalog's price to the micro-dollar.
"""
import csv
import hashlib
import json
import os
import sys
from decimal import Decimal as D, ROUND_HALF_UP

# family: (core, GiB of memory), USD per hour in us-central1, on demand; the split of what cannot be told apart.
REF = {'N1 Predefined': ('0.031611', '0.004237'), 'G2': ('0.024988', '0.002927'), 'A2': ('0.031611', '0.004237'),
       'A3': ('0.029335', '0.002550'), 'A3Plus': ('0.029335', '0.002550'), 'A3Ultra': ('0.029335', '0.002550'),
       'G4': ('0.031000', '0.004200')}
SSD = {'OnDemand': D('0.08'), 'Preemptible': D('0.032')}  # USD per GiB and month; everywhere
# machine name prefix: (family of core and memory, GPU part)
FAMILY = [('n1-standard', 'N1 Predefined', None), ('g2-standard', 'G2', 'L4'), ('g4-standard', 'G4', 'RTX6000'),
          ('a2-ultragpu', 'A2', 'A100-80'), ('a2-', 'A2', 'A100-40'), ('a3-megagpu', 'A3Plus', 'H100-mega'),
          ('a3-ultragpu', 'A3Ultra', 'H200'), ('a3-', 'A3', 'H100'), ('a4-highgpu', None, 'B200')]
ACCELERATOR = {'L4': 'nvidia-l4', 'RTX6000': 'nvidia-rtx-pro-6000', 'A100-80': 'nvidia-a100-80gb',
               'A100-40': 'nvidia-tesla-a100', 'H100-mega': 'nvidia-h100-mega-80gb', 'H200': 'nvidia-h200-141gb',
               'H100': 'nvidia-h100-80gb', 'B200': 'nvidia-b200', 'T4': 'nvidia-tesla-t4', 'P4': 'nvidia-tesla-p4',
               'V100': 'nvidia-tesla-v100', 'P100': 'nvidia-tesla-p100'}
GPU_WORDS = {'L4': 'Nvidia L4 GPU', 'RTX6000': 'RTX 6000 96GB', 'A100-80': 'Nvidia Tesla A100 80GB GPU',
             'A100-40': 'Nvidia Tesla A100 GPU', 'H100-mega': 'Nvidia H100 80GB Mega GPU', 'H200': 'H200 141GB GPU',
             'H100': 'Nvidia H100 80GB GPU', 'T4': 'Nvidia Tesla T4 GPU', 'P4': 'Nvidia Tesla P4 GPU',
             'V100': 'Nvidia Tesla V100 GPU', 'P100': 'Nvidia Tesla P100 GPU'}
SSDS = {'a2-ultragpu': {1: 1, 2: 2, 4: 4, 8: 8}, 'a3-highgpu': {1: 2, 2: 4, 4: 8, 8: 16}, 'a3-megagpu': {8: 16},
        'a3-edgegpu': {8: 16}, 'a3-ultragpu': {8: 32}, 'a4-highgpu': {8: 32}}
CITY = {'us-central1': 'Iowa', 'us-east1': 'South Carolina', 'us-east4': 'Virginia', 'us-east5': 'Columbus',
        'us-west1': 'Oregon', 'us-west2': 'Los Angeles', 'us-west3': 'Salt Lake City', 'us-west4': 'Las Vegas',
        'us-south1': 'Dallas', 'europe-west1': 'Belgium', 'europe-west2': 'London', 'europe-west3': 'Frankfurt',
        'europe-west4': 'Netherlands', 'europe-west6': 'Zurich', 'europe-west8': 'Milan', 'europe-west9': 'Paris',
        'europe-west10': 'Berlin', 'europe-west12': 'Turin',
        'europe-southwest1': 'Madrid', 'europe-north2': 'Stockholm', 'asia-southeast3': 'Bangkok',
        'northamerica-south1': 'Mexico', 'europe-central2': 'Warsaw', 'europe-north1': 'Finland',
        'northamerica-northeast1': 'Montreal', 'northamerica-northeast2': 'Toronto',
        'southamerica-east1': 'Sao Paulo', 'southamerica-west1': 'Santiago', 'asia-east1': 'Taiwan',
        'asia-east2': 'Hong Kong', 'asia-northeast1': 'Tokyo', 'asia-northeast2': 'Osaka', 'asia-northeast3': 'Seoul',
        'asia-south1': 'Mumbai', 'asia-south2': 'Delhi', 'asia-southeast1': 'Singapore',
        'asia-southeast2': 'Jakarta', 'australia-southeast1': 'Sydney', 'australia-southeast2': 'Melbourne',
        'me-west1': 'Tel Aviv', 'me-central1': 'Doha', 'me-central2': 'Dammam', 'africa-south1': 'Johannesburg'}


def rows(path):
    with open(path, newline='') as f:
        return list(csv.DictReader(f))


def write(out, name, header, data):
    with open(os.path.join(out, name), 'w', newline='') as f:
        w = csv.writer(f, lineterminator='\n')
        w.writerow(header)
        w.writerows(data)


def family(name):
    for prefix, fam, gpu in FAMILY:
        if name.startswith(prefix):
            return fam, gpu
    raise KeyError(name)


def types(catalog):
    """name: (vcpus, mem_mib, family, gpu part, gpus, local SSDs). N1 hosts have their GPUs attached, not bundled."""
    out = {}
    for r in rows(os.path.join(catalog, 'instance_types.csv')):
        if r['provider'] != 'gcp' or '.' in r['gpu_count']:
            continue  # fractions of a GPU: no public word on how their accelerators are listed
        name, n = r['instance_type'], int(r['gpu_count'])
        fam, gpu = family(name)
        if '+' in name:
            gpu = name.split('+nvidia-tesla-')[1].rsplit('x', 1)[0].upper()
        ssd = 0 if name.endswith('nolssd') else SSDS.get('-'.join(name.split('-')[:2]), {}).get(n, 0)
        out[name] = (int(r['vcpus']), int(D(r['mem_gib']) * 1024), fam, gpu, n, ssd)
    return out


def offers(catalog, kinds):
    """zone: set of types; (region, type, side): price."""
    zones, price, everywhere = {}, {}, set()
    for r in rows(os.path.join(catalog, 'prices.csv')):
        if r['provider'] != 'gcp' or r['instance_type'] not in kinds:
            continue
        for side, col in (('OnDemand', 'on_demand_usd_hour'), ('Preemptible', 'spot_usd_hour')):
            if r[col]:
                price[r['region'], r['instance_type'], side] = D(r[col])
        if r['zone']:
            zones.setdefault(r['zone'], set()).add(r['instance_type'])
        else:
            everywhere.add((r['region'], r['instance_type']))
    for region, name in sorted(everywhere):  # no word on zones: the first two
        of = sorted(z for z in zones if z.rsplit('-', 1)[0] == region)[:2] or [region + '-a', region + '-b']
        for z in of:
            zones.setdefault(z, set()).add(name)
    zones['us-central1-ai1a'] = {'a4-highgpu-8g'}  # an AI zone: its name must be cut at the last hyphen
    return zones, price


def solve(kinds, price, regions):
    """(part, region, side): USD per unit. Parts: "A2 core", "A2 ram", "A100-40 gpu", "ssd"."""
    parts = {}

    def first(names, region, side):
        for n in names:
            if (region, n, side) in price:
                return n, price[region, n, side]
        return None, None

    def split(fam, names, region, side):
        core, ram = (D(x) for x in REF[fam])
        name, p = first(names, region, side)
        like = 'a3-highgpu-8g' if 'a3-edge' in name else name
        ref = price.get(('us-central1', like, 'OnDemand'))
        k = p / ref if ref else D(1)
        core, ram = core * k, ram * k
        hi, mega = ((region, n, side) for n in ('a2-highgpu-1g', 'a2-megagpu-16g'))
        if fam == 'A2' and hi in price and mega in price:
            solved = (16 * price[hi] - price[mega]) / 96
            core, ram = solved, ram * solved / core if solved > 0 else ram
        g4, g12 = ((region, 'g2-standard-%d' % n, side) for n in (4, 12))
        if fam == 'G2' and g4 in price and g12 in price:
            both, share = (price[g12] - price[g4]) / 8, D(REF['G2'][1]) / D(REF['G2'][0])
            core = both / (1 + 4 * share)
            ram = (both - core) / 4
        nano = D('0.000000001')
        return core.quantize(nano), ram.quantize(nano)

    for region in regions:
        for side in ('OnDemand', 'Preemptible'):
            parts['ssd', region, side] = SSD[side]
            for fam in REF:
                mine = sorted((n for n in kinds if kinds[n][2] == fam), key=lambda n: ('edge' in n, kinds[n][4], n))
                mine = [n for n in mine if (region, n, side) in price]
                if not mine:
                    continue
                core, ram = split(fam, mine, region, side)
                parts[fam + ' core', region, side], parts[fam + ' ram', region, side] = core, ram
                for n in mine:
                    vcpus, mem, _, gpu, count, ssd = kinds[n]
                    if (gpu + ' gpu', region, side) in parts:
                        continue
                    p = price[region, n, side]
                    if 'edge' in n or 'a3-ultragpu' in n:
                        ssd = 0  # this source's price is without the disks
                    rest = p - vcpus * core - D(mem) / 1024 * ram - ssd * 375 * SSD[side] / 730
                    assert rest > 0, (n, region, side, rest)
                    parts[gpu + ' gpu', region, side] = (rest / count).quantize(D('0.000000001'))
            b200 = price.get((region, 'a4-highgpu-8g', side))
            if b200:
                parts['B200 gpu', region, side] = (b200 / 8).quantize(D('0.000000001'))
    return parts


def compose(parts, kind, region, side):
    vcpus, mem, fam, gpu, count, ssd = kind
    if fam is None:
        return parts.get((gpu + ' gpu', region, side)) and parts[gpu + ' gpu', region, side] * count
    need = [(fam + ' core', vcpus), (fam + ' ram', D(mem) / 1024), (gpu + ' gpu', count)]
    if any((p, region, side) not in parts for p, _ in need):
        return None
    usd = sum(parts[p, region, side] * n for p, n in need) + ssd * 375 * parts['ssd', region, side] / 730
    return usd.quantize(D('0.000001'), ROUND_HALF_UP)


def continent(regions):
    kinds = {r.split('-')[0] for r in regions}
    if kinds <= {'us', 'northamerica', 'southamerica'}:
        return 'Americas'
    return 'EMEA' if kinds <= {'europe', 'me', 'africa'} else 'APAC'


def words(part, side, place):
    name, kind = part.rsplit(' ', 1) if ' ' in part else (part, 'ssd')
    spot = side == 'Preemptible'
    if kind == 'ssd':
        return 'SSD backed Local Storage%s in %s' % (' attached to Spot Preemptible VMs' if spot else '', place)
    if part == 'B200 gpu':
        return '%sA4 Nvidia B200 (1 gpu slice) running in %s' % ('Spot Preemptible ' if spot else '', place)
    if kind == 'gpu':
        return '%s %srunning in %s' % (GPU_WORDS[name], 'attached to Spot Preemptible VMs ' if spot else '', place)
    mark = '' if not spot else 'Preemptible ' if name.startswith('N1') else 'Spot Preemptible '
    return '%s%s Instance %s running in %s' % (mark, name, kind.capitalize(), place)


def sku_id(text):
    h = hashlib.sha256(text.encode()).hexdigest().upper()
    return '%s-%s-%s' % (h[:4], h[4:8], h[8:12])


UNIT = {'core': 'h', 'gpu': 'h', 'ram': 'GiBy.h', 'ssd': 'GiBy.mo'}


def skus(parts):
    """One row per SKU: regions with one price share a SKU, as in the vendor's catalog."""
    groups, out = {}, []
    for (part, region, side), usd in parts.items():
        area = '' if part == 'ssd' else continent([region])
        groups.setdefault((part, side, area, usd), []).append(region)
    for (part, side, area, usd), regions in sorted(groups.items()):
        kind = part.rsplit(' ', 1)[-1]
        for some in ([regions] if len(regions) > 1 and area else [[r] for r in regions]):
            place = area if len(some) > 1 else CITY[some[0]]
            text = words(part, side, place)
            # Seen in the vendor's catalog: Spot B200 says OnDemand.
            usage = 'OnDemand' if part == 'B200 gpu' else side
            group = {'core': 'CPU', 'ram': 'RAM', 'gpu': 'GPU', 'ssd': 'LocalSSD'}[kind]
            out.append((sku_id(text + ' '.join(some)), text, 'Storage' if kind == 'ssd' else 'Compute', group, usage,
                        UNIT[kind], ' '.join(sorted(some)), '0:%d' % int(usd * 10**9), part, side))
    return out


def decoys(real):
    """Adds the catalog's other rows under names that look alike; every price is a made-up share of the real one."""
    out = []

    def add(row, text, share, usage=None):
        nanos = int(row[7].split(':')[1])
        out.append((sku_id(text + row[6]), text, row[2], row[3], usage or row[4], row[5], row[6],
                    '0:%d' % (nanos * share // 100), '', ''))

    for row in real:
        text, kind, side = row[1], row[8].rsplit(' ', 1)[-1], row[9]
        if row[6] not in ('us-central1', 'europe-west4', 'us-central1 us-east1 us-west1') and 'Americas' not in text:
            continue
        if kind in ('core', 'ram') and side == 'OnDemand':
            add(row, text.replace(' Instance', ' Sole Tenancy Instance'), 100)
            add(row, 'Reserved ' + text, 100)
            add(row, text.replace(' Instance', ' Custom Instance'), 105)
            add(row, text.replace(' Instance', ' Custom Extended Instance'), 225)
            add(row, text.replace(' Instance', ' Premium Instance'), 110)
            add(row, 'Commitment v1: ' + text.replace(' running', ' for 1 Year running'), 63, 'Commit1Yr')
            add(row, 'DWS Defined Duration ' + text, 47)
            add(row, 'DWS Calendar Mode ' + text, 55)
            add(row, text.replace('Instance', 'Instance (Capacity Optimized)'), 120)
            add(row, text.replace(' Instance', ' VM state: suspended'), 20)
        if kind == 'gpu' and side == 'OnDemand':
            add(row, 'Reserved ' + text, 100)
            add(row, 'Commitment v1: ' + text.replace(' running', ' for 1 Year running'), 63, 'Commit1Yr')
            add(row, text.replace(' running', ' attached to DWS Defined Duration VMs running'), 47)
            add(row, text.replace(' running', ' attached to DWS Calendar Mode VMs running'), 55)
    return out


PAIRS = (('Americas', 'us-central1 us-east1 us-east4 us-west1 us-west4', 'EMEA', 50), ('EMEA', 'europe-west1 europe-west4',
         'Americas', 50), ('Americas', 'us-central1 us-east1 us-east4 us-west1 us-west4', 'Virginia', 20),
         ('Iowa', 'us-central1', 'Tokyo', 80))


def network(catalog):
    """Internet egress (list price of the first TiB) from the catalog, tiers and pairs from the vendor's page."""
    out = []
    for r in rows(os.path.join(catalog, 'egress.csv')):
        if r['provider'] != 'gcp' or r['to'] != 'internet' or r['from'] not in CITY:
            continue
        first = int(D(r['usd_per_gb']) * 10**9)
        text = 'Network Internet Data Transfer Out from %s to %s' % (CITY[r['from']], 'Americas')
        out.append((sku_id(text), text, 'Network', 'PremiumInternetEgress', 'OnDemand', 'GiBy', r['from'],
                    '0:0 1:%d 1024:%d 10240:%d' % (first, first * 11 // 12, first * 8 // 12), '', ''))
    for a, regions, b, nanos in PAIRS:
        text = 'Network Inter Region Data Transfer Out from %s to %s' % (a, b)
        out.append((sku_id(text), text, 'Network', 'InterregionEgress', 'OnDemand', 'GiBy', regions,
                    '0:%d' % (nanos * 10**6), '', ''))
    for region, city in sorted(CITY.items()):
        text = 'Network Inter Zone Data Transfer Out in %s' % city
        out.append((sku_id(text), text, 'Network', 'InterzoneEgress', 'OnDemand', 'GiBy', region, '0:10000000', '', ''))
        for text, group, nanos in (('Storage PD Capacity in %s' % city, 'PDStandard', 40000000),
                                   ('SSD backed PD Capacity in %s' % city, 'SSD', 170000000),
                                   ('Balanced PD Capacity in %s' % city, 'SSD', 100000000),
                                   ('Hyperdisk Balanced Capacity in %s' % city, 'SSD', 80000000)):
            out.append((sku_id(text), text, 'Storage', group, 'OnDemand', 'GiBy.mo', region, '0:%d' % nanos, '', ''))
    return out


def history(catalog, kinds):
    """Changes of the Spot list price in the last year of the record, which ends 2026-07-30, and the price that held when
    the year began."""
    out = []
    path = os.path.join(catalog, 'spot_history', 'gcp_regions_2023-05_2026-07.csv')
    for r in sorted(rows(path), key=lambda r: (r['region'], r['instance_type'], r['timestamp'])):
        row = r['region'], r['instance_type'], r['timestamp'][:10], r['spot_usd_hour']
        if r['instance_type'] not in kinds:
            continue
        if out and out[-1][:2] == row[:2]:
            if out[-1][3] == row[3]:
                continue
            if row[2] <= '2025-07-30':
                out.pop()
        out.append(row)
    return out


# ---- the API's field tables ---------------------------------------------------------------------

ROOTS = {'compute.v1': ['Instance', 'BulkInsertInstanceResource', 'InstancesSetLabelsRequest', 'Disk',
                        'TestPermissionsRequest', 'CapacityHistoryRequest', 'CapacityAdviceRequest', 'Metadata', 'Tags',
                        'InstanceTemplate'],
         'storage.v1': ['Object', 'Bucket', 'ComposeRequest']}


def schemas(directory):
    """name: {field: type}. Types: s(tring) i(nteger) n(umber) b(oolean) *(any) @Schema [type] {type}; a trailing !
    marks a field that only answers have."""
    out = {}

    def kind(v, todo, path):
        if '$ref' in v:
            todo.append(v['$ref'])
            return '@' + v['$ref']
        t = v.get('type', 'any')
        if t == 'array':
            return '[' + kind(v['items'], todo, path)
        if t == 'object':
            if 'additionalProperties' in v:
                return '{' + kind(v['additionalProperties'], todo, path)
            inline[path] = v
            return '@' + path
        if v.get('format') in ('int64', 'uint64'):
            return 'l'
        return {'string': 's', 'integer': 'i', 'number': 'n', 'boolean': 'b'}.get(t, '*')

    for name, roots in ROOTS.items():
        with open(os.path.join(directory, name + '.json')) as f:
            doc = json.load(f)
        inline, todo = {}, list(roots)
        while todo:
            n = todo.pop()
            if n in out:
                continue
            src = inline.get(n) or doc['schemas'][n]
            out[n] = {k: kind(v, todo, n + '.' + k) for k, v in src.get('properties', {}).items()}
            todo += [i for i in inline if i not in out]
    return out


def main():
    catalog, directory, out = sys.argv[1:4]
    kinds = types(catalog)
    zones, price = offers(catalog, kinds)
    regions = sorted({z.rsplit('-', 1)[0] for z in zones})
    parts = solve(kinds, price, regions)
    real = skus(parts)
    off = 0
    for (region, name, side), usd in sorted(price.items()):
        got = compose(parts, kinds[name], region, side)
        if got is None or abs(got - usd) > D('0.00002'):
            off += 1
            if 'edge' not in name and name != 'a3-ultragpu-8g' and os.environ.get('SHOW'):
                print(region, name, side, usd, got)
    print('%d prices, %d not composed exactly, %d SKUs' % (len(price), off, len(real)))
    assert len({r[0] for r in real}) == len(real)
    write(out, 'gcp_zones.csv', ('region', 'zone', 'city', 'types'),
          [(z.rsplit('-', 1)[0], z, CITY[z.rsplit('-', 1)[0]], ' '.join(sorted(zones[z]))) for z in sorted(zones)])
    write(out, 'gcp_types.csv', ('type', 'vcpus', 'mem_mib', 'family', 'gpu', 'accelerator', 'gpus', 'ssds'),
          [(n, k[0], k[1], k[2] or '', k[3], ACCELERATOR[k[3]], k[4], k[5]) for n, k in sorted(kinds.items())])
    all_skus = real + decoys(real) + network(catalog)
    seen = set()
    write(out, 'gcp_skus.csv', ('sku', 'description', 'family', 'group', 'usage', 'unit', 'regions', 'tiers', 'part', 'side'),
          [r for r in sorted(all_skus, key=lambda r: r[0]) if not (r[0] in seen or seen.add(r[0]))])
    write(out, 'gcp_history.csv', ('region', 'type', 'day', 'spot'), history(catalog, kinds))
    with open(os.path.join(out, 'gcp_schema.json'), 'w') as f:
        json.dump(schemas(directory), f, separators=(',', ':'), sort_keys=True)
        f.write('\n')


if __name__ == '__main__':
    main()
