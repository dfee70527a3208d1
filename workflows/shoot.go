package workflows

import (
	"fmt"
	"strings"

	"go.temporal.io/sdk/temporal"
)

// TypeShootRegistration attributes the infrastructure tenant of one Gardener
// shoot to its project, from the shoot's creation to its deletion.
const TypeShootRegistration = "ShootRegistration"

// ShootID is the workflow id of the registration of a shoot. A shoot that is made
// again under its name has another uid: it is another shoot.
func ShootID(project, name, uid string) string { return ShootPrefix + project + "/" + name + "/" + uid }

// ShootPrefix starts the ids of all registrations.
const ShootPrefix = "shoot/"

// ParseShootID is the inverse of ShootID.
func ParseShootID(id string) (project, name, uid string, err error) {
	parts := strings.Split(id, "/")
	if len(parts) != 4 || parts[0] != "shoot" || parts[1] == "" || parts[2] == "" || parts[3] == "" {
		return "", "", "", fmt.Errorf("workflow id %q: want shoot/<project>/<name>/<uid>", id)
	}
	return parts[1], parts[2], parts[3], nil
}

// Signals of the ShootRegistration workflow, beside SignalRetry: resolve and
// check everything again, at once.
const (
	SignalShootCreated = "created" // api.ShootFacts
	SignalShootEnded   = "ended"   // api.ShootEnd
	SignalShootRotated = "rotated" // api.ShootRotation
)

// Updates of the ShootRegistration workflow, which answer with an
// api.ShootRegistration.
const (
	UpdateShootRegister = "Register" // api.ShootFacts
	UpdateShootEnd      = "End"      // api.ShootEnd
	UpdateShootRetry    = "Retry"
)

// AttrTenant is <platform>/<external id> of the infrastructure tenant of a
// shoot. Beside it, registrations have AttrSource, AttrNamespace (the Gardener
// project), AttrPhase, AttrReason and AttrHealthy. A shoot is found by the
// beginning of its workflow id.
var AttrTenant = temporal.NewSearchAttributeKeyKeyword("TollgateTenant")

func shootAttributes() []temporal.SearchAttributeKey {
	return []temporal.SearchAttributeKey{AttrTenant}
}
