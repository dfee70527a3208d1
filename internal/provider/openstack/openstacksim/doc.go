// Package openstacksim simulates an OpenStack cloud over HTTP: the parts of
// identity (keystone v3), compute (nova 2.1 with microversions), network
// (neutron v2), volumes (cinder v3) and images (glance v2) that Tollgate uses,
// with the answers of release Zed, whose real services the same tests run
// against (build tag openstack).
//
// It keeps state: servers are built, take their ports, do what they are told for
// as long as that takes, end in ERROR and vanish; deleted ones are in listings of
// changes until the database is purged, and actions say who did what; names are
// not unique; quotas, tokens and pages end. Whatever goes wrong
// on the way there and back is added by Faults, which can stand in front of a
// real cloud too.
package openstacksim
