package provider

// PriceList is what an operator pays for instances: the prices of providers that
// have no price list, or that bill otherwise than by it. The first entry that fits
// counts.
type PriceList []PriceEntry

// PriceEntry is the price of the instances at some placements. Empty fields fit
// everything.
type PriceEntry struct {
	Region, Zone, MachineType string
	// EURPerHour is for one instance with all that is made for it.
	EURPerHour MicroEUR
}

// Of is the price of an instance at a placement; known is false when no entry
// fits. Where the placement leaves a field empty, an entry that names one does not
// fit.
func (l PriceList) Of(p Placement) (price MicroEUR, known bool) {
	fits := func(want, have string) bool { return want == "" || want == have }
	for _, e := range l {
		if fits(e.Region, p.Region) && fits(e.Zone, p.Zone) && fits(e.MachineType, p.MachineType) {
			return e.EURPerHour, true
		}
	}
	return 0, false
}

// OfAny is the price of an instance that may come to be at any of these
// placements: the dearest. It is not known when that of one of them is not.
func (l PriceList) OfAny(places []Placement) (price MicroEUR, known bool) {
	for _, p := range places {
		one, ok := l.Of(p)
		if !ok {
			return 0, false
		}
		price, known = max(price, one), true
	}
	return price, known
}

// Covers reports whether the entry fits wherever another one does, which then
// never counts behind it.
func (e PriceEntry) Covers(o PriceEntry) bool {
	covers := func(a, b string) bool { return a == "" || a == b }
	return covers(e.Region, o.Region) && covers(e.Zone, o.Zone) && covers(e.MachineType, o.MachineType)
}
