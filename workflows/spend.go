package workflows

// Names by which creates ask shard 0 of a fleet for room below the spend cap.
const (
	UpdateReserve = "Reserve" // api.SpendRequest -> api.SpendAnswer
	// SignalReleased says that a create made nothing, or that an instance is gone.
	SignalReleased = "released" // api.SpendRelease
)
