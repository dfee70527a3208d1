#!/usr/bin/python3
"""Runs one OpenStack (Debian 12 "Zed") project as ONE plain process on loopback.

usage: osrun.py keystone|placement|glance|neutron|nova|cinder

Only the process layout differs from a usual deployment; the code is the
distribution's own.  nova-api, nova-conductor, nova-scheduler and nova-compute
(fake.FakeDriver) share one process, and so do cinder-api/-scheduler/-volume:
then oslo.messaging's in-process transport (fake:/) is enough and no RabbitMQ
is needed.  Environment: OS_DIR (state folder, with etc/NAME.conf in it).
"""
import os
import sys

SVC = sys.argv[1]
DIR = os.environ['OS_DIR']
ETC = os.path.join(DIR, 'etc')
CONF_FILE = os.path.join(ETC, SVC + '.conf')
sys.argv = [SVC, '--config-file', CONF_FILE]


def quicken():
    """Spares the services what SQLite, or the caches of SQLAlchemy, make dear. Call it after the
    monkey patching, before models are loaded."""
    from sqlalchemy import event, pool
    from sqlalchemy.dialects.sqlite import pysqlite
    from sqlalchemy.orm import relationships

    class Pool(pool.QueuePool):
        """Connections are kept, as for other databases: each new one reads the whole schema."""

        def __init__(self, creator, **kw):
            kw.update(pool_size=10, max_overflow=-1)
            super().__init__(creator, **kw)
    pysqlite.SQLiteDialect_pysqlite.get_pool_class = classmethod(lambda cls, url: Pool)

    @event.listens_for(pool.Pool, 'reset')
    def forget(_connection, record):     # oslo.db's mark for a transaction, which has ended
        record.info.pop('in_transaction', None)

    # "subquery" builds its statements anew for each query, which is most of what neutron does;
    # "selectin" loads the same with statements that are kept. It does not fill in what an object
    # that is loaded already lacks, and neutron counts on that for ports and for tags: those are joined.
    init = relationships.RelationshipProperty.do_init

    def do_init(self):
        if self.lazy == 'subquery':
            self.lazy = 'joined' if self.parent.class_.__name__ in ('Port', 'StandardAttribute') else 'selectin'
            self.strategy_key = (('lazy', self.lazy),)
        init(self)
    relationships.RelationshipProperty.do_init = do_init


def serve_threaded(app, port):
    """A threaded stdlib WSGI server (keystone and placement need no eventlet)."""
    import socketserver
    from sqlalchemy import event
    from sqlalchemy.engine import Engine
    from wsgiref import simple_server

    @event.listens_for(Engine, 'connect')
    def pragmas(connection, _record):
        # Threads wait for each other rather than fail, and what belongs to a row goes with it,
        # as in the databases that these services are made for.
        connection.execute('PRAGMA busy_timeout=60000')
        connection.execute('PRAGMA foreign_keys=ON')

    class Server(socketserver.ThreadingMixIn, simple_server.WSGIServer):
        daemon_threads = True
        request_queue_size = 128

        def server_bind(self):          # no reverse DNS look-up at start
            socketserver.TCPServer.server_bind(self)
            self.server_name, self.server_port = '127.0.0.1', port
            self.setup_environ()

    class Handler(simple_server.WSGIRequestHandler):
        def address_string(self):
            return self.client_address[0]

    simple_server.make_server('127.0.0.1', port, app, Server, Handler).serve_forever()


def keystone():
    quicken()
    os.environ['OS_KEYSTONE_CONFIG_FILES'] = CONF_FILE
    sys.argv = ['keystone']
    from keystone.server.wsgi import initialize_public_application
    serve_threaded(initialize_public_application(), int(os.environ['PORT_KEYSTONE']))


def placement():
    quicken()
    os.environ['OS_PLACEMENT_CONFIG_DIR'] = ETC
    sys.argv = ['placement']
    import threading
    from placement.wsgi import init_application
    app, one = init_application(), threading.Lock()

    def one_at_a_time(environ, start_response):
        # It reads and then writes in one transaction. SQLite fails that, without waiting, when
        # another has written in between.
        with one:
            return app(environ, start_response)
    serve_threaded(one_at_a_time, int(os.environ['PORT_PLACEMENT']))


def glance():
    from glance.cmd.api import main      # workers = 0: no fork
    quicken()
    main()


def neutron():
    os.environ['OS_NEUTRON_CONFIG_DIR'] = ETC
    os.environ['OS_NEUTRON_CONFIG_FILES'] = 'neutron.conf'
    import neutron.cmd.eventlet          # noqa: F401  (monkey patching)
    quicken()
    from neutron import server, service

    def api_only():                      # no agents exist, so no RPC workers
        service.serve_wsgi(service.NeutronApiService).wait()
    server.boot_server(api_only)


def nova():
    import nova.monkey_patch             # noqa: F401
    quicken()
    import shlex
    import eventlet
    import os_vif
    from oslo_log import log as logging
    from oslo_privsep import priv_context
    from oslo_service import service as oslo_service
    import nova.conf
    from nova import config, context, objects, service, utils
    from nova.compute import rpcapi as compute_rpcapi
    from nova.conductor import rpcapi as conductor_rpcapi
    from nova.objects import host_mapping
    from nova.scheduler import rpcapi as scheduler_rpcapi

    CONF = nova.conf.CONF
    config.parse_args(sys.argv)
    logging.setup(CONF, 'nova')
    priv_context.init(root_helper=shlex.split(utils.get_root_helper()))
    objects.register_all()
    os_vif.initialize()
    objects.Service.enable_min_version_cache()
    # Fault injection by server metadata: fake_spawn_seconds=N keeps it in BUILD that long,
    # fake_spawn_hold=NAME for as long as OS_DIR/hold/NAME exists, fake_spawn_error=TEXT ends
    # it in ERROR with that fault.
    from nova import exception
    from nova.virt import fake
    spawn = fake.FakeDriver.spawn

    def injected(self, ctx, instance, *args, **kwargs):
        md = instance.metadata or {}
        eventlet.sleep(float(md.get('fake_spawn_seconds', 0)))
        hold = os.path.basename(md.get('fake_spawn_hold', ''))
        while hold and os.path.exists(os.path.join(DIR, 'hold', hold)):
            eventlet.sleep(0.1)
        if md.get('fake_spawn_error'):
            raise exception.BuildAbortException(instance_uuid=instance.uuid, reason=md['fake_spawn_error'])
        return spawn(self, ctx, instance, *args, **kwargs)
    fake.FakeDriver.spawn = injected
    launcher = oslo_service.ServiceLauncher(CONF, restart_method='mutate')
    for binary, topic in (('nova-conductor', conductor_rpcapi.RPC_TOPIC),
                          ('nova-scheduler', scheduler_rpcapi.RPC_TOPIC),
                          ('nova-compute', compute_rpcapi.RPC_TOPIC)):
        launcher.launch_service(service.Service.create(binary=binary, topic=topic))
    launcher.launch_service(service.WSGIService('osapi_compute'))

    def discover():                      # = nova-manage cell_v2 discover_hosts
        ctx = context.get_admin_context()
        while True:
            try:
                host_mapping.discover_hosts(ctx)
                if objects.HostMappingList.get_all(ctx):
                    open(os.path.join(DIR, 'nova.ready'), 'w').close()
                    return
            except Exception as e:       # the service table may not be filled yet
                logging.getLogger('nova').info('discover_hosts: %s', e)
            eventlet.sleep(0.3)
    eventlet.spawn(discover)
    launcher.wait()


def cinder():
    import eventlet
    eventlet.monkey_patch()
    import __original_module_threading as orig_threading
    import threading
    orig_threading.current_thread.__globals__['_active'] = threading._active
    quicken()
    import shlex
    import os_brick
    from oslo_log import log as logging
    from oslo_privsep import priv_context
    from oslo_service import service as oslo_service
    from cinder import i18n
    i18n.enable_lazy()
    from cinder import objects
    from cinder.common import config, constants
    from cinder.cmd import volume as cmd_volume  # noqa: F401 (registers host_opt)
    from cinder import coordination, rpc, service, utils, version
    from oslo_config import cfg
    CONF = cfg.CONF
    objects.register_all()
    CONF(sys.argv[1:], project='cinder', version=version.version_string())
    config.set_middleware_defaults()
    logging.setup(CONF, 'cinder')
    priv_context.init(root_helper=shlex.split(utils.get_root_helper()))
    utils.monkey_patch()
    os_brick.setup(CONF)
    coordination.COORDINATOR.start()
    rpc.init(CONF)
    launcher = oslo_service.ServiceLauncher(CONF, restart_method='mutate')
    launcher.launch_service(service.Service.create(binary='cinder-scheduler'))
    for backend in CONF.enabled_backends:
        CONF.register_opt(cmd_volume.host_opt, group=backend)
        launcher.launch_service(service.Service.create(
            host='%s@%s' % (CONF.host, backend), service_name=backend,
            binary=constants.VOLUME_BINARY, coordination=True))
    launcher.launch_service(service.WSGIService('osapi_volume'))
    launcher.wait()


globals()[SVC]()
