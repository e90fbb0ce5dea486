#!/usr/bin/env python3
"""The roles of deploy/iam permit what the providers send, and nothing else.

The golden exchanges (tests/golden) hold the requests. A request that no row below knows, a right that the role lacks and a
right that no request needs are findings. AWS' policy is held against the same exchanges by botocore_check.py, the Kubernetes
roles by a real API server.

    permissions.py TOP | --self-test
"""
import glob
import json
import os
import re
import sys

# Request (method, host and path with query) -> what the vendor asks for it. "" = nothing, or what the words say.
GCP = [
    (r'POST oauth2\.|POST sts\.|POST iamcredentials\.|GET 169\.254\.', ''),  # credentials
    (r'GET cloudbilling\.', ''),                                             # public prices
    (r'POST cloudresourcemanager\.\S*:testIamPermissions', ''),
    (r'GET storage\.', ''),                                                  # the bucket's own role
    (r'GET compute\.\S*/projects/[\w-]+(\?|$)', 'compute.projects.get'),
    (r'GET compute\.\S*/projects/[\w-]+/regions(\?|$)', 'compute.regions.list'),
    (r'GET compute\.\S*/aggregated/machineTypes', 'compute.machineTypes.list'),
    (r'GET compute\.\S*/aggregated/acceleratorTypes', 'compute.acceleratorTypes.list'),
    (r'GET compute\.\S*/aggregated/reservations', 'compute.reservations.list'),
    (r'POST compute\.\S*/advice/capacityHistory', 'compute.advice.capacityHistory'),
    (r'POST compute\.\S*/advice/capacity(\?|$)', 'compute.advice.capacity'),
    # instances.insert: one right for each thing in the body
    (r'POST compute\.\S*/instances(/bulkInsert)?\?', 'compute.instances.create compute.instances.setLabels '
     'compute.instances.setMetadata compute.instances.setServiceAccount compute.disks.create compute.disks.setLabels '
     'compute.images.useReadOnly compute.networks.use compute.networks.useExternalIp compute.subnetworks.use '
     'compute.subnetworks.useExternalIp'),
    # applied to a machine it needs .use, too
    (r'POST compute\.\S*/resourcePolicies$', 'compute.resourcePolicies.create compute.resourcePolicies.use'),
    (r'GET compute\.\S*/regions/[\w-]+/resourcePolicies/', 'compute.resourcePolicies.get'),
    (r'DELETE compute\.\S*/resourcePolicies/', 'compute.resourcePolicies.delete'),
    (r'GET compute\.\S*/aggregated/resourcePolicies', 'compute.resourcePolicies.list'),
    (r'POST compute\.\S*/regions/[\w-]+/operations/[\w-]+/wait', 'compute.regionOperations.get'),
    (r'POST compute\.\S*/operations/[\w-]+/wait', 'compute.zoneOperations.get'),
    (r'GET compute\.\S*/zones/[\w-]+/operations\?', 'compute.zoneOperations.list'),
    (r'GET compute\.\S*/aggregated/operations', 'compute.globalOperations.list'),
    (r'GET compute\.\S*/(aggregated|zones/[\w-]+)/instances\?', 'compute.instances.list'),
    (r'GET compute\.\S*/aggregated/disks', 'compute.disks.list'),
    (r'GET compute\.\S*/instances/[\w-]+$', 'compute.instances.get'),
    (r'DELETE compute\.\S*/instances/', 'compute.instances.delete'),
    (r'DELETE compute\.\S*/disks/', 'compute.disks.delete'),
    (r'GET cloudquotas\.', 'cloudquotas.quotas.get'),
]
GROUP = 'Microsoft.Resources/subscriptions/resourceGroups/'
CARD, ADDRESS = 'Microsoft.Network/networkInterfaces/', 'Microsoft.Network/publicIPAddresses/'
BLOBS = 'Microsoft.Storage/storageAccounts/blobServices/'
AZURE = [
    (r'POST login\.|GET 169\.254\.|GET prices\.', ''),
    (r'GET management\.\S*/subscriptions/[\w-]+\?', 'Microsoft.Resources/subscriptions/read'),
    (r'GET management\.\S*/subscriptions/[\w-]+/locations\?', 'Microsoft.Resources/subscriptions/locations/read'),
    (r'GET management\.\S*/resourcegroups[?/][^/]*$', GROUP + 'read'),
    (r'PUT management\.\S*/resourcegroups/[^/]*$', GROUP + 'write'),
    # With what is in the group; where it is told to look afterwards is operationresults.
    (r'DELETE management\.\S*/resourcegroups/', GROUP + 'delete Microsoft.Resources/subscriptions/operationresults/read '
     'Microsoft.Compute/virtualMachines/delete Microsoft.Compute/disks/delete ' + CARD + 'delete ' + ADDRESS + 'delete'),
    # A machine refers to it, and it goes with its resource group.
    (r'PUT management\.\S*/proximityPlacementGroups/', ' '.join('Microsoft.Compute/proximityPlacementGroups/' + x for x in ('read', 'write', 'delete'))),
    # The machine's body makes disk, card and address, and refers to network, image and identity.
    (r'PUT management\.\S*/virtualMachines/', 'Microsoft.Compute/virtualMachines/write Microsoft.Compute/disks/read '
     'Microsoft.Compute/disks/write Microsoft.Compute/images/read Microsoft.Compute/galleries/images/read '
     'Microsoft.Compute/galleries/images/versions/read ' + ' '.join(x + y for x in (CARD, ADDRESS) for y in ('read', 'write', 'join/action')) +
     ' Microsoft.Network/virtualNetworks/read Microsoft.Network/virtualNetworks/subnets/read '
     'Microsoft.Network/virtualNetworks/subnets/join/action Microsoft.Network/networkSecurityGroups/read '
     'Microsoft.Network/networkSecurityGroups/join/action Microsoft.ManagedIdentity/userAssignedIdentities/read '
     'Microsoft.ManagedIdentity/userAssignedIdentities/assign/action'),
    (r'GET management\.\S*/virtualMachines[/?]', 'Microsoft.Compute/virtualMachines/read Microsoft.Compute/virtualMachines/instanceView/read'),
    (r'GET management\.\S*/locations/\w+/operations/', 'Microsoft.Compute/locations/operations/read'),
    # The machines that are launched into a group need the right to deploy into it.
    (r'GET management\.\S*/capacityReservations\?', 'Microsoft.Compute/capacityReservationGroups/capacityReservations/read '
     'Microsoft.Compute/capacityReservationGroups/deploy/action'),
    (r'GET management\.\S*/locations/\w+/usages', 'Microsoft.Compute/locations/usages/read'),
    (r'GET management\.\S*/skus\?', 'Microsoft.Compute/skus/read'),
    (r'GET management\.\S*/placementScores/spot\?', 'Microsoft.Compute/locations/placementScores/read'),
    (r'POST management\.\S*/placementScores/spot/generate', 'Microsoft.Compute/locations/placementScores/generate/action'),
    (r'GET management\.\S*/Microsoft\.Authorization/permissions', 'Microsoft.Authorization/permissions/read'),
    # The tables show what may be read: annotations of machines come with the rights on their health.
    (r'POST management\.\S*/Microsoft\.ResourceGraph/resources', 'Microsoft.ResourceGraph/resources/read Microsoft.ResourceHealth/availabilityStatuses/read'),
    (r'POST \S*\.blob\.\S*comp=userdelegationkey', BLOBS + 'generateUserDelegationKey/action'),
    (r'GET \S*\.blob\.\S*comp=list', BLOBS + 'containers/read'),
]
# No golden exchange has the check of a storage account without a key.
AZURE_MORE = ['GET https://a.blob.core.windows.net/?comp=list&maxresults=1']
# Rights that signed addresses carry.
AZURE_DATA = {BLOBS + 'containers/blobs/' + x for x in ('read', 'write', 'add/action', 'delete')}


def requests(top, cloud):
    for path in sorted(glob.glob(os.path.join(top, 'tests', 'golden', cloud, '*.txt'))):
        with open(path, encoding='utf-8') as f:
            for line in re.findall(r'(?m)^--- request[^\n]*\n([A-Z]+ \S+)', f.read()):
                yield line


def judge(rules, lines, granted, file, report):
    """Each line is needed by the first row that fits."""
    needed = set()
    for line in lines:
        text = re.sub(r'^(\w+) https?://', r'\1 ', line).replace(':443/', '/')
        row = next((r for r in rules if re.match(r[0], text)), None)
        if row is None:
            report(f'no row of tests/lint/permissions.py knows {line}')
        else:
            needed.update(row[1].split())
    for right in sorted(needed - granted):
        report(f'{file} lacks {right}')
    for right in sorted(granted - needed):
        report(f'{file} grants {right}, which no request needs')


def check(top, report):
    with open(os.path.join(top, 'deploy', 'iam', 'gcp-role.yaml'), encoding='utf-8') as f:
        judge(GCP, requests(top, 'gcp'), set(re.findall(r'(?m)^  - (\S+)$', f.read())), 'gcp-role.yaml', report)
    with open(os.path.join(top, 'deploy', 'iam', 'azure-role.json'), encoding='utf-8') as f:
        role = json.load(f)
    judge(AZURE, [*requests(top, 'azure'), *AZURE_MORE], set(role['Actions']), 'azure-role.json', report)
    if set(role['DataActions']) != AZURE_DATA:
        report('azure-role.json: DataActions are not those of the signed addresses')


def self_test():
    rules = [('GET a\\.', 'a.read'), ('PUT a\\.', 'a.write')]
    for lines, granted, words in ((['GET https://a.b/'], {'a.read'}, ''), (['GET https://a.b/'], set(), 'lacks a.read'),
                                  (['GET https://a.b/'], {'a.read', 'a.write'}, 'grants a.write'), (['POST https://a.b/'], set(), 'no row')):
        found = []
        judge(rules, lines, granted, 'role', found.append)
        assert (words == '' and not found) or (len(found) == 1 and words in found[0]), (lines, granted, found)


def main():
    if sys.argv[1:] == ['--self-test']:
        self_test()
        return 0
    found = []
    check(sys.argv[1], found.append)
    print('\n'.join(found))
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
