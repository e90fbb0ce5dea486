#!/usr/bin/env python3
"""Makes data/azure_*.csv out of the GPU catalog.

Run once by hand when the catalog changes: gen_azure.py CATALOG_DIR OUT_DIR; with the python of tests/vendor/venv,
gen_azure.py --schema OUT_DIR makes the list of a VM body's members out of the vendor's models. The build and the tests
use only the committed output. Prices are the catalog's; which zones a region has, quota families and what the vendor's size list
says wrongly about GPUs come from the vendor's documents (see data/PROVENANCE.md).
"""
import collections
import csv
import os
import re
import sys

# Regions with availability zones (Azure docs, "List of Azure regions"); all others have none.
ZONED = set('''australiaeast brazilsouth canadacentral centralindia chilecentral centralus eastasia eastus eastus2
francecentral germanywestcentral indonesiacentral israelcentral italynorth japaneast japanwest koreacentral
malaysiawest mexicocentral northeurope norwayeast polandcentral qatarcentral southafricanorth southcentralus
southeastasia spaincentral swedencentral switzerlandnorth uaenorth uksouth westeurope westus2 westus3'''.split())
# As /skus spells them: words of the display name run together.
DISPLAY = {
    'australiacentral': 'Australia Central', 'australiacentral2': 'Australia Central 2', 'australiaeast': 'Australia East',
    'australiasoutheast': 'Australia Southeast', 'brazilsouth': 'Brazil South', 'canadacentral': 'Canada Central',
    'canadaeast': 'Canada East', 'centralindia': 'Central India', 'centralus': 'Central US', 'chilecentral': 'Chile Central',
    'eastasia': 'East Asia', 'eastus': 'East US', 'eastus2': 'East US 2', 'francecentral': 'France Central',
    'germanynorth': 'Germany North', 'germanywestcentral': 'Germany West Central', 'indonesiacentral': 'Indonesia Central',
    'israelcentral': 'Israel Central', 'italynorth': 'Italy North', 'japaneast': 'Japan East', 'japanwest': 'Japan West',
    'jioindiacentral': 'Jio India Central', 'jioindiawest': 'Jio India West', 'koreacentral': 'Korea Central',
    'koreasouth': 'Korea South', 'malaysiawest': 'Malaysia West', 'mexicocentral': 'Mexico Central',
    'northcentralus': 'North Central US', 'northeurope': 'North Europe', 'norwayeast': 'Norway East',
    'norwaywest': 'Norway West', 'polandcentral': 'Poland Central', 'qatarcentral': 'Qatar Central',
    'southafricanorth': 'South Africa North', 'southafricawest': 'South Africa West', 'southcentralus': 'South Central US',
    'southcentralus2': 'South Central US 2', 'southeastasia': 'Southeast Asia', 'southindia': 'South India',
    'spaincentral': 'Spain Central', 'swedencentral': 'Sweden Central', 'switzerlandnorth': 'Switzerland North',
    'switzerlandwest': 'Switzerland West', 'uaecentral': 'UAE Central', 'uaenorth': 'UAE North', 'uksouth': 'UK South',
    'ukwest': 'UK West', 'westcentralus': 'West Central US', 'westeurope': 'West Europe', 'westus': 'West US',
    'westus2': 'West US 2', 'westus3': 'West US 3',
}
FAMILY = [  # first match
    (r'NC\d+as_T4_v3', 'Standard NCASv3_T4 Family'), (r'NV\d+adm?s_A10_v5', 'StandardNVADSA10v5Family'),
    (r'NC\d+ads_A10_v4', 'StandardNCADSA10v4Family'), (r'NC\d+ads_A100_v4', 'StandardNCADSA100v4Family'),
    (r'NC\d+adi?s_H100_v5', 'StandardNCadsH100v5Family'), (r'NCC\d+ads_H100_v5', 'StandardNCCads2023Family'),
    (r'ND96asr_v4', 'Standard NDASv4_A100 Family'), (r'ND96amsr_A100_v4', 'Standard NDAMSv4_A100Family'),
    (r'ND96isr_H100_v5', 'standardNDSH100v5Family'), (r'ND96isr_H200_v5', 'standardNDISRH200V5Family'),
    (r'ND96isr_MI300X_v5', 'standardNDISv5MI300XFamily'), (r'NC\d+r?s_v3', 'standardNCSv3Family'),
    (r'ND40rs_v2', 'standardNDSv2Family'), (r'NV\d+as_v4', 'standardNVSv4Family'), (r'NV\d+s_v3', 'standardNVSv3Family'),
]


def rows(path):
    with open(path, newline='') as f:
        return [r for r in csv.DictReader(f) if r['provider'] == 'azure']


def write(out, name, header, data):
    with open(os.path.join(out, name), 'w', newline='') as f:
        w = csv.writer(f, lineterminator='\n')
        w.writerow(header)
        w.writerows(data)
    print('%-28s %6d rows' % (name, len(data)))


def series(size):
    """"NDsr H100 v5" of Standard_ND96isr_H100_v5: the price list's productName has it."""
    m = re.match(r'(N[CDVG]C?)\d+([a-z]*)_?(.*)$', size)
    return ' '.join(x for x in (m.group(1) + m.group(2), m.group(3).replace('_', ' ')) if x)


# Members that the models of this SDK do not have yet, and the api-version that brought them.
NEWER = [('properties.networkProfile.networkInterfaceConfigurations.tags', '{str}', '2025-04-01'),
         ('properties.networkProfile.networkInterfaceConfigurations.properties.ipConfigurations.properties.'
          'publicIPAddressConfiguration.tags', '{str}', '2025-04-01')]


def schema(out):
    import azure.mgmt.compute.v2024_11_01.models as models
    source = sys.modules[models.VirtualMachine.__module__]
    found = {}

    def walk(cls, path):
        rules = getattr(cls, '_validation', {})
        for attr, m in cls._attribute_map.items():
            parts, kind = m['key'].split('.'), m['type']
            for k in range(1, len(parts)):
                found.setdefault(path + '.'.join(parts[:k]), ('obj', '', ''))
            bare = kind.strip('[]{}')
            rule = rules.get(attr, {})
            found[path + m['key']] = (kind.replace(bare, 'obj') if bare[0].isupper() else kind,
                                      'true' if rule.get('readonly') else '', 'true' if rule.get('required') else '')
            if bare[0].isupper() and not rule.get('readonly'):
                walk(getattr(source, bare), path + m['key'] + '.')

    walk(models.VirtualMachine, '')
    data = [(k,) + v + ('',) for k, v in found.items()] + [(k, t, '', '', since) for k, t, since in NEWER]
    write(out, 'azure_vm_schema.csv', ['path', 'type', 'readonly', 'required', 'since'], sorted(data))


def main():
    if sys.argv[1] == '--schema':
        schema(sys.argv[2])
        return
    catalog, out = sys.argv[1:]
    prices = [r for r in rows(os.path.join(catalog, 'prices.csv')) if r['region'] in DISPLAY]
    used = {r['instance_type'] for r in prices}
    types = []
    for r in rows(os.path.join(catalog, 'instance_types.csv')):
        name = r['instance_type']
        if name not in used:
            continue
        size = name[len('Standard_'):]
        count = float(r['gpu_count'])
        # The size list says 1 for fractions and nothing at all for MI300X (gpuhunt and SkyPilot work around both).
        told = '' if 'MI300X' in size else str(max(1, int(count)))
        new = re.search(r'H100|H200|MI300X|A10_v5', size) is not None
        types.append((name, r['gpu_name'], told, r['gpu_count'], r['vcpus'], int(float(r['mem_gib']) * 1024),
                      next(f for p, f in FAMILY if re.fullmatch(p, size)), 'V2' if new else 'V1,V2', series(size),
                      'false' if size.startswith('NCC') else 'true', 'true' if re.search(r'\d[a-z]*r[a-z]*_', size) else 'false'))
    write(out, 'azure_types.csv', ['instance_type', 'gpu', 'gpus_told', 'gpu_count', 'vcpus', 'mem_mib', 'family',
                                   'generations', 'series', 'spot_capable', 'rdma'], sorted(types))
    regions = sorted({r['region'] for r in prices})
    write(out, 'azure_regions.csv', ['region', 'display', 'zones'],
          [(r, DISPLAY[r], '1 2 3' if r in ZONED else '') for r in regions])
    write(out, 'azure_pools.csv', ['region', 'instance_type', 'on_demand', 'spot', 'as_of'],
          sorted((r['region'], r['instance_type'], r['on_demand_usd_hour'], r['spot_usd_hour'], r['as_of']) for r in prices))
    hist = collections.defaultdict(list)
    with open(os.path.join(catalog, 'spot_history', 'azure_regions_2026-04_2026-05.csv'), newline='') as f:
        for r in csv.DictReader(f):
            if r['region'] in DISPLAY and r['instance_type'] in used:
                hist[r['region'], r['instance_type']].append((r['timestamp'], r['spot_usd_hour']))
    data = []
    for (region, kind), points in sorted(hist.items()):
        last = None
        for at, usd in sorted(points):
            if usd != last:
                data.append((region, kind, at, usd))
            last = usd
    write(out, 'azure_history.csv', ['region', 'instance_type', 'timestamp', 'spot'], data)


main()
