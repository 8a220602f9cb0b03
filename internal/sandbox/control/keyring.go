package control

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

// keyPoll is how old what is known of the file of keys may be.
const keyPoll = 5 * time.Second

// keyring is the keys of the settings and of a file that may change while the service
// runs: a key that leaves the file is refused from then on.
type keyring struct {
	fixed Keys
	path  string // "" is no file
	now   func() time.Time

	current atomic.Pointer[Keys]
	mu      sync.Mutex // of what follows
	read    time.Time
	sum     [sha256.Size]byte // of the file as it was last read, good or bad
	missing bool
}

func newKeyring(set Settings, now func() time.Time) (*keyring, error) {
	k := &keyring{fixed: set.Keys, path: set.KeysFile, now: now, read: now()}
	var raw []byte
	if k.path != "" {
		var err error
		if raw, err = os.ReadFile(k.path); err != nil {
			return nil, fmt.Errorf("--api-keys-file: %w", err)
		}
	}
	k.sum = sha256.Sum256(raw)
	all, err := k.parse(raw)
	if err != nil {
		return nil, err
	}
	if set.RequireKey && all.Len() == 0 {
		return nil, errNoKey
	}
	k.current.Store(&all)
	return k, nil
}

func (k *keyring) parse(raw []byte) (Keys, error) {
	keys, err := parseKeyFile(raw)
	if err == nil {
		keys, err = k.fixed.and(keys)
	}
	if err != nil {
		return keys, fmt.Errorf("--api-keys-file %s: %w", k.path, err)
	}
	return keys, nil
}

// find is whom key stands for. It looks at the file first when that was long ago.
func (k *keyring) find(ctx context.Context, key string) (caller, bool) {
	if k.path != "" && k.mu.TryLock() {
		k.refresh(ctx)
		k.mu.Unlock()
	}
	return k.current.Load().find(key)
}

// refresh reads the file when it is time to. A file that is bad or gone leaves the keys
// as they are: half a file must lock nobody out. The caller holds mu.
func (k *keyring) refresh(ctx context.Context) {
	now := k.now()
	if now.Sub(k.read) < keyPoll {
		return
	}
	k.read = now
	log := zerolog.Ctx(ctx)
	raw, err := os.ReadFile(k.path)
	if err != nil {
		if !k.missing {
			log.Error().Err(err).Msg("the file of API keys cannot be read: the old keys stay")
		}
		k.missing = true
		return
	}
	sum := sha256.Sum256(raw)
	if sum == k.sum && !k.missing {
		return
	}
	k.sum, k.missing = sum, false
	keys, err := k.parse(raw)
	if err == nil && keys.Len() == 0 {
		err = fmt.Errorf("--api-keys-file %s: %w", k.path, errNoKey)
	}
	if err != nil {
		log.Error().Err(err).Msg("the new file of API keys is bad: the old keys stay")
		return
	}
	k.current.Store(&keys)
	log.Info().Int("keys", keys.Len()).Msg("API keys were read again")
}
