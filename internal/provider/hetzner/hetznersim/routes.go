package hetznersim

// allRoutes is the API: one line per endpoint.
func (s *Sim) allRoutes() []route {
	r := []route{
		newRoute("GET", "/actions", globalActions),
		newRoute("GET", "/actions/{id}", getAction),

		newRoute("GET", "/locations", listLocations),
		newRoute("GET", "/locations/{id}", getLocation),
		newRoute("GET", "/datacenters", datacentersGone),
		newRoute("GET", "/datacenters/{id}", datacentersGone),
		newRoute("GET", "/server_types", listServerTypes),
		newRoute("GET", "/server_types/{id}", getServerType),
		newRoute("GET", "/load_balancer_types", listBalancerTypes),
		newRoute("GET", "/load_balancer_types/{id}", getBalancerType),
		newRoute("GET", "/pricing", getPricing),
	}
	kind := func(path, kind string, list, get, create, update, del handler) {
		r = append(r, newRoute("GET", path, list), newRoute("GET", path+"/{id}", get), newRoute("PUT", path+"/{id}", update),
			newRoute("DELETE", path+"/{id}", del))
		if create != nil {
			r = append(r, newRoute("POST", path, create))
		}
		if kind != "" { // SSH keys and placement groups have no actions
			r = append(r, newRoute("GET", path+"/actions", kindActions(kind)), newRoute("GET", path+"/actions/{id}", getAction),
				newRoute("GET", path+"/{id}/actions", objectActions(kind)), newRoute("GET", path+"/{id}/actions/{action_id}", getAction))
		}
	}
	kind("/servers", "server", listServers, getServer, createServer, updateServer, deleteServer)
	kind("/volumes", "volume", listVolumes, getVolume, createVolume, updateVolume, deleteVolume)
	kind("/floating_ips", "floating_ip", listFloatingIPs, getFloatingIP, createFloatingIP, updateFloatingIP, deleteFloatingIP)
	kind("/primary_ips", "primary_ip", listPrimaryIPs, getPrimaryIP, createPrimaryIP, updatePrimaryIP, deletePrimaryIP)
	kind("/networks", "network", listNetworks, getNetwork, createNetwork, updateNetwork, deleteNetwork)
	kind("/firewalls", "firewall", listFirewalls, getFirewall, createFirewall, updateFirewall, deleteFirewall)
	kind("/load_balancers", "load_balancer", listBalancers, getBalancer, createBalancer, updateBalancer, deleteBalancer)
	kind("/images", "image", listImages, getImage, nil, updateImage, deleteImage)
	kind("/ssh_keys", "", listSSHKeys, getSSHKey, createSSHKey, updateSSHKey, deleteSSHKey)
	kind("/placement_groups", "", listGroups, getGroup, createGroup, updateGroup, deleteGroup)

	do := func(path string, verbs map[string]handler) {
		for verb, h := range verbs {
			r = append(r, newRoute("POST", path+"/{id}/actions/"+verb, h))
		}
	}
	do("/servers", serverVerbs())
	do("/volumes", map[string]handler{
		"attach": onVolume(attachVolume), "detach": onVolume(detachVolume), "resize": onVolume(resizeVolume),
		"change_protection": onVolume(func(c *call, v *volume) (int, any, error) { return c.protect(&v.base, v.on()) }),
	})
	do("/floating_ips", map[string]handler{
		"assign": onFloatingIP(assignFloatingIP), "unassign": onFloatingIP(unassignFloatingIP),
		"change_dns_ptr":    onFloatingIP(floatingDNSPtr),
		"change_protection": onFloatingIP(func(c *call, f *floatingIP) (int, any, error) { return c.protect(&f.base, f.on()) }),
	})
	do("/primary_ips", map[string]handler{
		"assign": onPrimaryIP(assignPrimaryIP), "unassign": onPrimaryIP(unassignPrimaryIP),
		"change_dns_ptr":    onPrimaryIP(primaryDNSPtr),
		"change_protection": onPrimaryIP(protectPrimaryIP),
	})
	do("/networks", map[string]handler{
		"add_route": onNetwork(addRoute), "delete_route": onNetwork(deleteRoute), "add_subnet": onNetwork(addSubnet),
		"delete_subnet": onNetwork(deleteSubnet), "change_ip_range": onNetwork(changeIPRange),
		"change_protection": onNetwork(func(c *call, n *network) (int, any, error) { return c.protect(&n.base, n.on()) }),
	})
	do("/firewalls", map[string]handler{
		"apply_to_resources": applyFirewall, "remove_from_resources": removeFirewall, "set_rules": setRules,
	})
	do("/images", map[string]handler{"change_protection": protectImage})
	do("/load_balancers", map[string]handler{
		"add_service": onBalancer(addService), "update_service": onBalancer(updateService), "delete_service": onBalancer(deleteService),
		"add_target": onBalancer(addTarget), "remove_target": onBalancer(removeTarget), "change_type": onBalancer(changeBalancerType),
		"change_algorithm": onBalancer(changeAlgorithm), "attach_to_network": onBalancer(attachBalancer),
		"detach_from_network": onBalancer(detachBalancer), "enable_public_interface": onBalancer(enablePublic),
		"disable_public_interface": onBalancer(disablePublic), "change_dns_ptr": onBalancer(balancerDNSPtr),
		"change_protection": onBalancer(func(c *call, b *loadBalancer) (int, any, error) { return c.protect(&b.base, b.on()) }),
	})
	return r
}

// serverVerbs are the actions of servers: the path's word is not always the
// action's command.
func serverVerbs() map[string]handler {
	return map[string]handler{
		"poweron":  power("start_server", startTime, stStarting, stOff),
		"poweroff": power("stop_server", stopTime, stStopping, stRunning, stStarting),
		"shutdown": power("shutdown_server", actionTime, "", stRunning),
		"reboot":   power("reboot_server", startTime, stStarting, stRunning),
		"reset":    power("reset_server", startTime, stStarting, stRunning),

		"change_type": onServer(changeServerType), "rebuild": onServer(rebuildServer), "create_image": onServer(createImage),
		"change_protection": onServer(protectServer), "change_dns_ptr": onServer(serverDNSPtr),
		"attach_to_network": onServer(attachToNetwork), "detach_from_network": onServer(detachFromNetwork),
		"change_alias_ips": onServer(changeAliasIPs), "add_to_placement_group": onServer(addToGroup),
		"remove_from_placement_group": onServer(removeFromGroup),

		"reset_password": simple("reset_password", mustRun, func(*call) obj { return obj{"root_password": password()} }),
		"enable_rescue":  simple("enable_rescue", enableRescue, func(*call) obj { return obj{"root_password": password()} }),
		"disable_rescue": simple("disable_rescue", func(_ *call, v *server) error { v.Rescue = false; return nil }, nil),
		"enable_backup":  simple("enable_backup", func(_ *call, v *server) error { v.Backup = "22-02"; return nil }, nil),
		"disable_backup": simple("disable_backup", disableBackup, nil),
		"request_console": simple("request_console", mustRun, func(*call) obj {
			return obj{"wss_url": "wss://console.example.net/?token=" + password(), "password": password()}
		}),
	}
}
