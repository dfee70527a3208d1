package app

import (
	"fmt"
	"os"

	"github.com/tollgate-dev/tollgate/activities"
	"github.com/tollgate-dev/tollgate/internal/config"
	"github.com/tollgate-dev/tollgate/internal/gardener"
	"github.com/tollgate-dev/tollgate/internal/registration"
	"github.com/tollgate-dev/tollgate/internal/registration/garden"
	"github.com/tollgate-dev/tollgate/internal/reporting"
)

// gardenSource is implemented by sources that read a Gardener.
type gardenSource interface {
	Connection() *gardener.Connection
	Namespace() string
}

// prepareRegistration makes what the registrations of a source need of the
// configuration.
func (a *App) prepareRegistration(v *version, c config.Source, clients map[string]*reporting.Client) error {
	r := c.Registration
	if r == nil {
		return nil
	}
	set := activities.ShootSettings{Settings: r.Settings, Account: c.Account}
	client, ok := clients[r.Reporting]
	if !ok {
		return nil // the sink's own trouble is reported already
	}
	set.Reporting = client
	set.OpenStack.Keystones = append([]registration.Keystone(nil), r.Settings.OpenStack.Keystones...)
	for i, file := range r.CAFiles {
		if file == "" {
			continue
		}
		pem, err := os.ReadFile(file)
		if err != nil {
			return c.Annotate(fmt.Errorf("registration.openstack.keystones[%d].caFile: %w", i, err))
		}
		set.OpenStack.Keystones[i].CA = pem
	}
	v.tolls.registrations[c.Name] = set
	return nil
}

// shootSettings is how activities find out how the shoots of a source are
// registered.
func (a *App) shootSettings(name string) (activities.ShootSettings, bool) {
	set, ok := a.current.Load().tolls.registrations[name]
	if !ok {
		return set, false
	}
	e, found := a.sources.Lookup(name)
	if !found || e.Err != nil {
		return set, true // what needs no garden cluster goes on
	}
	for _, s := range e.Streams {
		if g, ok := s.Source.(gardenSource); ok {
			set.Garden = a.garden(name, g)
			break
		}
	}
	return set, true
}

// garden keeps one reader for a connection: it remembers the namespaces of
// projects.
func (a *App) garden(name string, src gardenSource) registration.Garden {
	conn := src.Connection()
	a.gardens.Lock()
	defer a.gardens.Unlock()
	if had, ok := a.gardens.byName[name]; ok && had.conn == conn {
		return had.garden
	}
	if a.gardens.byName == nil {
		a.gardens.byName = map[string]readGarden{}
	}
	made := readGarden{conn, garden.New(name, conn, src.Namespace())}
	a.gardens.byName[name] = made
	return made.garden
}

type readGarden struct {
	conn   *gardener.Connection
	garden *garden.Garden
}

// followers act on what the cursors of a source have delivered.
func (a *App) followers(name string) []activities.Follower {
	if _, ok := a.current.Load().tolls.registrations[name]; !ok {
		return nil
	}
	return []activities.Follower{a.shoots}
}
