#!/usr/bin/python3
"""Fills the control plane over its own APIs: catalogue, users, image, flavors, networks.
Idempotent: looks each thing up by name first.  Prints shell assignments of the ids."""
import os
import sys
import time
import requests

P = {k[5:].lower(): v for k, v in os.environ.items() if k.startswith('PORT_')}
PW = os.environ['OS_PASS']
U = {s: 'http://127.0.0.1:%s' % p for s, p in P.items()}
KS = U['keystone'] + '/v3'
S = requests.Session()
S.trust_env = False


def call(method, url, ok=(200, 201, 202, 204), **kw):
    r = S.request(method, url, timeout=60, **kw)
    if r.status_code not in ok:
        sys.exit('%s %s: %s %s' % (method, url, r.status_code, r.text[:400]))
    return r.json() if r.text else {}


def wait(url, secs=120):
    end = time.time() + secs
    while True:
        try:
            if S.get(url, timeout=5).status_code < 500:
                return
        except requests.RequestException:
            pass
        if time.time() > end:
            sys.exit('not ready: ' + url)
        time.sleep(0.2)


def token(user, project):
    r = S.post(KS + '/auth/tokens', json={'auth': {
        'identity': {'methods': ['password'], 'password': {'user': {
            'name': user, 'domain': {'id': 'default'}, 'password': PW}}},
        'scope': {'project': {'name': project, 'domain': {'id': 'default'}}}}})
    if r.status_code != 201:
        sys.exit('token %s: %s' % (r.status_code, r.text))
    S.headers['X-Auth-Token'] = r.headers['X-Subject-Token']


def one(coll, base, name, body, key=None):
    """Get by name or create, in keystone/neutron/nova style collections."""
    key = key or coll[:-1]
    got = [x for x in call('GET', '%s/%s' % (base, coll))[coll] if x.get('name') == name]
    return got[0] if got else call('POST', '%s/%s' % (base, coll), json={key: dict(body, name=name)})[key]


wait(KS)
token('admin', 'admin')
roles = {r['name']: r['id'] for r in call('GET', KS + '/roles')['roles']}
roles['service'] = one('roles', KS, 'service', {})['id']   # cinder trusts detach calls only with a service token
proj = {n: one('projects', KS, n, {'domain_id': 'default'})['id'] for n in ('service', 'demo')}
for user, project, names in (('svc', 'service', ['admin', 'service']), ('demo', 'demo', ['member', 'reader'])):
    u = one('users', KS, user, {'domain_id': 'default', 'password': PW})['id']
    for n in names:
        call('PUT', '%s/projects/%s/users/%s/roles/%s' % (KS, proj[project], u, roles[n]))
eps = {e['service_id'] + e['interface'] for e in call('GET', KS + '/endpoints')['endpoints']}
for typ, name, url in (('placement', 'placement', U['placement']), ('image', 'glance', U['glance']),
                       ('network', 'neutron', U['neutron']), ('compute', 'nova', U['nova'] + '/v2.1'),
                       ('block-storage', 'cinder', U['cinder'] + '/v3'),
                       ('volumev3', 'cinderv3', U['cinder'] + '/v3')):
    sid = one('services', KS, name, {'type': typ})['id']
    for i in ('public', 'internal', 'admin'):
        if sid + i not in eps:
            call('POST', KS + '/endpoints', json={'endpoint': {
                'service_id': sid, 'interface': i, 'url': url, 'region_id': 'RegionOne'}})

if sys.argv[1:] == ['identity']:      # before the others start: nova-compute logs in at once
    sys.exit(0)

for s in ('placement', 'glance', 'neutron', 'nova', 'cinder'):
    wait(U[s] + '/')

N = U['neutron'] + '/v2.0'
ext = one('networks', N, 'public', {'router:external': True, 'provider:network_type': 'flat',
                                    'provider:physical_network': 'physnet1', 'port_security_enabled': False})
one('subnets', N, 'public-v4', {'network_id': ext['id'], 'ip_version': 4, 'cidr': '203.0.113.0/24', 'enable_dhcp': False})
net = one('networks', N, 'private', {'project_id': proj['demo']})
sub = one('subnets', N, 'private-v4', {'network_id': net['id'], 'ip_version': 4, 'cidr': '10.20.0.0/16', 'project_id': proj['demo']})
rtr = one('routers', N, 'router', {'project_id': proj['demo'], 'external_gateway_info': {'network_id': ext['id']}})
if not call('GET', '%s/ports?device_id=%s&network_id=%s' % (N, rtr['id'], net['id']))['ports']:
    call('PUT', '%s/routers/%s/add_router_interface' % (N, rtr['id']), json={'subnet_id': sub['id']})
# A network for all projects, so that tests can have one project each.
shared = one('networks', N, 'shared', {'shared': True})
ssub = one('subnets', N, 'shared-v4', {'network_id': shared['id'], 'ip_version': 4, 'cidr': '10.30.0.0/16'})
if not call('GET', '%s/ports?device_id=%s&network_id=%s' % (N, rtr['id'], shared['id']))['ports']:
    call('PUT', '%s/routers/%s/add_router_interface' % (N, rtr['id']), json={'subnet_id': ssub['id']})
# Addresses of loopback, where a test can run something real for each server. It has no router.
loop = one('networks', N, 'loopback', {'shared': True})
one('subnets', N, 'loopback-v4', {'network_id': loop['id'], 'ip_version': 4, 'cidr': '127.80.0.0/16', 'enable_dhcp': False, 'gateway_ip': None})

G = U['glance'] + '/v2'
img = [i for i in call('GET', G + '/images?name=cirros')['images']]
img = img[0] if img else call('POST', G + '/images', json={
    'name': 'cirros', 'disk_format': 'raw', 'container_format': 'bare', 'visibility': 'public'})
if img['status'] == 'queued':
    call('PUT', '%s/images/%s/file' % (G, img['id']), data=b'\0' * 1048576,
         headers={'Content-Type': 'application/octet-stream'})

C = U['nova'] + '/v2.1'
fl = {}
for name, vcpus, ram, disk in (('m1.tiny', 1, 512, 1), ('m1.small', 1, 2048, 20), ('m1.large', 4, 8192, 80)):
    fl[name] = one('flavors', C, name, {'vcpus': vcpus, 'ram': ram, 'disk': disk})['id']

def ready():
    """Every service heartbeats, and the compute host is mapped to its cell and known to placement.
    (With restored databases the rows exist at once but are stale: 'No valid host' until 'up'.)"""
    if not os.path.exists(os.environ['OS_DIR'] + '/nova.ready'):
        return False
    if not call('GET', U['placement'] + '/resource_providers')['resource_providers']:
        return False
    want = [(C, {'nova-conductor', 'nova-scheduler', 'nova-compute'}),
            (U['cinder'] + '/v3', {'cinder-volume'})]  # its scheduler takes work whatever its own beat says
    for base, names in want:
        got = call('GET', base + '/os-services')['services']
        if names - {s['binary'] for s in got if s['state'] == 'up' and s['status'] == 'enabled'}:
            return False
    return True


end = time.time() + 120
while not ready():
    if time.time() > end:
        sys.exit('services never became ready')
    time.sleep(0.3)
print('IMAGE_ID=%s\nNETWORK_ID=%s\nEXT_NETWORK_ID=%s\nFLAVOR_ID=%s\nPROJECT_ID=%s' % (
    img['id'], net['id'], ext['id'], fl['m1.tiny'], proj['demo']))
