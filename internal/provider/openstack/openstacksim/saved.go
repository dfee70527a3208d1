package openstacksim

import (
	"cmp"
	"slices"
	"time"
)

type savedObject struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

func saveObject(o object) savedObject { return savedObject{o.id, o.name} }
func (o savedObject) object() object  { return object{o.ID, o.Name} }

type savedFlavor struct {
	savedObject
	VCPUs     int `json:"vcpus"`
	RAM       int `json:"ram"`
	Disk      int `json:"disk"`
	Ephemeral int `json:"ephemeral"`
	Swap      int `json:"swap"`
}

func saveFlavor(f flavor) savedFlavor {
	return savedFlavor{saveObject(f.object), f.vcpus, f.ram, f.disk, f.ephemeral, f.swap}
}

func (f savedFlavor) flavor() flavor {
	return flavor{f.object(), f.VCPUs, f.RAM, f.Disk, f.Ephemeral, f.Swap}
}

type savedImage struct {
	savedObject
	Created time.Time `json:"created"`
	Hidden  bool      `json:"hidden,omitempty"`
}

func saveImage(i image) savedImage { return savedImage{saveObject(i.object), i.created, i.hidden} }
func (i savedImage) image() image  { return image{i.object(), i.Created, i.Hidden} }

type savedServer struct {
	ID          string            `json:"id"`
	Name        string            `json:"name"`
	Project     string            `json:"project"`
	User        string            `json:"user"`
	Status      string            `json:"status"`
	Task        string            `json:"task,omitempty"`
	Fault       string            `json:"fault,omitempty"`
	Metadata    map[string]string `json:"metadata,omitempty"`
	Tags        []string          `json:"tags,omitempty"`
	Flavor      savedFlavor       `json:"flavor"`
	Old         *savedFlavor      `json:"old,omitempty"`
	Image       string            `json:"image,omitempty"`
	UserData    []byte            `json:"userData,omitempty"`
	ConfigDrive bool              `json:"configDrive,omitempty"`
	Zone        string            `json:"zone,omitempty"`
	Ports       []string          `json:"ports"`
	OwnPort     string            `json:"ownPort,omitempty"`
	Volumes     []savedAttached   `json:"volumes,omitempty"`
	Created     time.Time         `json:"created"`
	Updated     time.Time         `json:"updated"`
	Launched    time.Time         `json:"launched,omitzero"`
	Terminated  time.Time         `json:"terminated,omitzero"`
	Placed      time.Time         `json:"placed,omitzero"`
	Due         time.Time         `json:"due,omitzero"`
	Locked      bool              `json:"locked,omitempty"`
	Doomed      bool              `json:"doomed,omitempty"`
	WasOff      bool              `json:"wasOff,omitempty"`
	KeyName     string            `json:"keyName,omitempty"`
	Work        *savedWork        `json:"work,omitempty"`
	Actions     []savedAction     `json:"actions"`
}

type savedAttached struct {
	ID     string `json:"id"`
	Delete bool   `json:"delete,omitempty"`
}

// savedWork is what a server is at; Action is the place of its action.
type savedWork struct {
	Action int         `json:"action"`
	Name   string      `json:"name"`
	From   string      `json:"from"`
	To     string      `json:"to"`
	Flavor savedFlavor `json:"flavor,omitzero"`
	Image  string      `json:"image,omitempty"`
	Step   time.Time   `json:"step"`
	Due    time.Time   `json:"due"`
	Half   bool        `json:"half,omitempty"`
}

func saveServer(x *server) savedServer {
	out := savedServer{ID: x.id, Name: x.name, Project: x.project, User: x.user, Status: x.status, Task: x.task, Fault: x.fault,
		Metadata: x.metadata, Tags: x.tags, Flavor: saveFlavor(x.flavor), Image: x.image, UserData: x.userData, ConfigDrive: x.configDrive,
		Zone: x.zone, Ports: x.ports, OwnPort: x.ownPort, Created: x.created, Updated: x.updated, Launched: x.launched, Terminated: x.terminated,
		Placed: x.placed, Due: x.due, Locked: x.locked, Doomed: x.doomed, WasOff: x.wasOff, KeyName: x.keyName,
		Actions: each(x.actions, saveAction), Volumes: each(x.volumes, func(a attached) savedAttached { return savedAttached{a.id, a.delete} })}
	if x.old != nil {
		old := saveFlavor(*x.old)
		out.Old = &old
	}
	if w := x.work; w != nil {
		out.Work = &savedWork{Action: slices.Index(x.actions, w.action), Name: w.name, From: w.from, To: w.to, Flavor: saveFlavor(w.size),
			Image: w.image, Step: w.step, Due: w.due, Half: w.half}
	}
	return out
}

func (v savedServer) server() *server {
	x := &server{id: v.ID, name: v.Name, project: v.Project, user: v.User, status: v.Status, task: v.Task, fault: v.Fault, metadata: v.Metadata,
		tags: v.Tags, flavor: v.Flavor.flavor(), image: v.Image, userData: v.UserData, configDrive: v.ConfigDrive, zone: v.Zone, ports: v.Ports,
		ownPort: v.OwnPort, created: v.Created, updated: v.Updated, launched: v.Launched, terminated: v.Terminated, placed: v.Placed, due: v.Due,
		locked: v.Locked, doomed: v.Doomed, wasOff: v.WasOff, keyName: v.KeyName, actions: each(v.Actions, savedAction.action),
		volumes: each(v.Volumes, func(a savedAttached) attached { return attached{a.ID, a.Delete} })}
	if v.Old != nil {
		old := v.Old.flavor()
		x.old = &old
	}
	if w := v.Work; w != nil {
		x.work = &work{action: x.actions[w.Action], name: w.Name, from: w.From, to: w.To, size: w.Flavor.flavor(), image: w.Image, step: w.Step,
			due: w.Due, half: w.Half}
	}
	return x
}

type savedAction struct {
	Name     string    `json:"name"`
	Request  string    `json:"request"`
	User     string    `json:"user"`
	Project  string    `json:"project"`
	Start    time.Time `json:"start"`
	Updated  time.Time `json:"updated"`
	Message  string    `json:"message,omitempty"`
	Event    string    `json:"event"`
	Began    time.Time `json:"began,omitzero"`
	Finished time.Time `json:"finished,omitzero"`
}

func saveAction(a *action) savedAction {
	return savedAction{a.name, a.request, a.user, a.project, a.start, a.updated, a.message, a.event, a.began, a.finished}
}

func (a savedAction) action() *action {
	return &action{name: a.Name, request: a.Request, user: a.User, project: a.Project, start: a.Start, updated: a.Updated, message: a.Message,
		event: a.Event, began: a.Began, finished: a.Finished}
}

type savedPort struct {
	ID          string    `json:"id"`
	Project     string    `json:"project"`
	Name        string    `json:"name,omitempty"`
	Description string    `json:"description,omitempty"`
	Device      string    `json:"device,omitempty"`
	MAC         string    `json:"mac"`
	Address     string    `json:"address"`
	Network     string    `json:"network,omitempty"`
	Groups      []string  `json:"groups,omitempty"`
	Created     time.Time `json:"created"`
}

func savePort(p *port) savedPort {
	return savedPort{p.id, p.project, p.name, p.description, p.device, p.mac, p.address.String(), p.network, p.groups, p.created}
}

func (p savedPort) port() *port {
	return &port{id: p.ID, project: p.Project, name: p.Name, description: p.Description, device: p.Device, mac: p.MAC, address: parseAddr(p.Address),
		network: p.Network, groups: p.Groups, created: p.Created}
}

type savedFloating struct {
	ID          string    `json:"id"`
	Project     string    `json:"project"`
	Description string    `json:"description,omitempty"`
	Port        string    `json:"port,omitempty"`
	Address     string    `json:"address"`
	Created     time.Time `json:"created"`
	Updated     time.Time `json:"updated"`
}

func saveFloating(f *floatingIP) savedFloating {
	return savedFloating{f.id, f.project, f.description, f.port, f.address.String(), f.created, f.updated}
}

func (f savedFloating) floating() *floatingIP {
	return &floatingIP{id: f.ID, project: f.Project, description: f.Description, port: f.Port, address: parseAddr(f.Address), created: f.Created,
		updated: f.Updated}
}

type savedVolume struct {
	ID         string            `json:"id"`
	Name       string            `json:"name,omitempty"`
	Project    string            `json:"project"`
	User       string            `json:"user"`
	Status     string            `json:"status"`
	Server     string            `json:"server,omitempty"`
	Type       string            `json:"type,omitempty"`
	Image      string            `json:"image,omitempty"`
	Size       int               `json:"size"`
	Wanted     int               `json:"wanted,omitempty"`
	Bootable   bool              `json:"bootable,omitempty"`
	Metadata   map[string]string `json:"metadata,omitempty"`
	Created    time.Time         `json:"created"`
	Updated    time.Time         `json:"updated,omitzero"`
	Due        time.Time         `json:"due,omitzero"`
	Zone       string            `json:"zone,omitempty"`
	Attached   time.Time         `json:"attached,omitzero"`
	Attachment string            `json:"attachment,omitempty"`
}

func saveVolume(v *volume) savedVolume {
	return savedVolume{v.id, v.name, v.project, v.user, v.status, v.server, v.typ, v.image, v.size, v.wanted, v.bootable, v.metadata, v.created,
		v.updated, v.due, v.zone, v.attached, v.attachment}
}

func (v savedVolume) volume() *volume {
	return &volume{id: v.ID, name: v.Name, project: v.Project, user: v.User, status: v.Status, server: v.Server, typ: v.Type, image: v.Image,
		size: v.Size, wanted: v.Wanted, bootable: v.Bootable, metadata: v.Metadata, created: v.Created, updated: v.Updated, due: v.Due,
		zone: cmp.Or(v.Zone, zoneName), attached: v.Attached, attachment: v.Attachment}
}
