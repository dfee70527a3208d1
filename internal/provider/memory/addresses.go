package memory

import (
	"context"
	"maps"
	"slices"
	"time"
)

// CreateAddress makes an address; 409 "uniqueness" when the name is in use.
func (b *Backend) CreateAddress(ctx context.Context, cred, name string, labels map[string]string) (out Address, err error) {
	err = b.call(ctx, cred, CallCreateAddress, func() error {
		if _, taken := b.addressIDs[name]; taken {
			return refuse(409, "uniqueness", "address name %q is already used", name)
		}
		b.seq++
		a := &Address{ID: b.seq, Name: name, Labels: maps.Clone(labels), Created: time.Now().UTC()}
		b.addresses[a.ID], b.addressIDs[name] = a, a.ID
		out = *a
		return nil
	})
	return out, err
}

// ListAddresses returns the addresses that carry all the labels and whose name
// is name, if one is given.
func (b *Backend) ListAddresses(ctx context.Context, cred, name string, labels map[string]string) (out []Address, err error) {
	err = b.call(ctx, cred, CallListAddresses, func() error {
		ids := []int64{b.addressIDs[name]} // 0 is nobody's
		if name == "" {
			ids = slices.Sorted(maps.Keys(b.addresses))
		}
		for _, id := range ids {
			if a := b.addresses[id]; a != nil && hasLabels(a.Labels, labels) {
				c := *a
				c.Labels = maps.Clone(a.Labels)
				out = append(out, c)
			}
		}
		return nil
	})
	return out, err
}

// DeleteAddress deletes an address: 404 when it is gone, 409 while in use.
func (b *Backend) DeleteAddress(ctx context.Context, cred string, id int64) error {
	return b.call(ctx, cred, CallDeleteAddress, func() error {
		a := b.addresses[id]
		if a == nil {
			return refuse(404, "not_found", "address %d does not exist", id)
		}
		if a.Server != 0 {
			return refuse(409, "in_use", "address %d is used by server %d", id, a.Server)
		}
		delete(b.addresses, id)
		delete(b.addressIDs, a.Name)
		return nil
	})
}

// DetachAddress takes an address off the server that uses it, if one does.
func (b *Backend) DetachAddress(ctx context.Context, cred string, id int64) error {
	return b.call(ctx, cred, CallDetachAddress, func() error {
		a := b.addresses[id]
		if a == nil {
			return refuse(404, "not_found", "address %d does not exist", id)
		}
		a.Server = 0
		return nil
	})
}
