package provider

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ReasonSpendCap: refused by the configured spend cap, before any call; class
// QuotaExceeded.
const ReasonSpendCap = "SpendCap"

// MaxMicroEUR is the largest amount that ParseMicroEUR takes: a million euros.
const MaxMicroEUR MicroEUR = 1e12

// ParseMicroEUR reads an amount in euros such as "1.50": digits, and at most six
// of them after the point. It is exact; there is no rounding.
func ParseMicroEUR(text string) (MicroEUR, error) {
	bad := func() (MicroEUR, error) {
		return 0, fmt.Errorf("%q is no amount in euros: use digits with at most six after the point, such as 1.50", text)
	}
	whole, part, _ := strings.Cut(text, ".")
	if whole == "" || strings.HasSuffix(text, ".") || len(part) > 6 || strings.Trim(whole+part, "0123456789") != "" {
		return bad()
	}
	n, err := strconv.ParseInt(whole+part+strings.Repeat("0", 6-len(part)), 10, 64)
	if err != nil {
		return bad()
	}
	if MicroEUR(n) > MaxMicroEUR {
		return 0, fmt.Errorf("%q is too much: use at most %d", text, int64(MaxMicroEUR/1e6))
	}
	return MicroEUR(n), nil
}

// Add is the sum, which stays at the largest amount instead of overflowing: a
// cap must never be met by a sum that wrapped around.
func (m MicroEUR) Add(o MicroEUR) MicroEUR {
	if o > 0 && m > math.MaxInt64-o {
		return math.MaxInt64
	}
	return m + o
}
