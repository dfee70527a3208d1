package workflows

// TypeInventory compares what exists at a source with what was reported.
const TypeInventory = "Inventory"

// InventoryPrefix starts the ids of all inventories and their schedules.
const InventoryPrefix = "inventory/"

// InventoryID is the workflow id of the inventories of a source; the schedule
// appends a time to it.
func InventoryID(source string) string { return InventoryPrefix + source }

// InventorySchedule is the schedule id of a source's inventories.
func InventorySchedule(source string) string { return InventoryPrefix + source }
