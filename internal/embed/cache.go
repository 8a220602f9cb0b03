package embed

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"time"

	"golang.org/x/sync/errgroup"

	"orchard/internal/exit"
	"orchard/internal/llm"
	"orchard/internal/objstore"
	"orchard/internal/seal"
)

// grace is how long an answer is tried to be kept when all is to end.
const grace = 10 * time.Second

// Server is what answers with vectors, one for each text in its order.
type Server interface {
	Embeddings(ctx context.Context, texts []string) ([][]float32, error)
}

// Cached asks a server for each text once: the answer is an object, created if absent,
// named by the model and the text. Whoever is killed and starts again asks only for what is not
// there. Safe for concurrent use.
type Cached struct {
	Server  Server
	Model   string
	Store   objstore.Store
	Prefix  string // of the objects' keys
	Batch   int    // texts in a request at most; under 1 is one
	Workers int    // requests, or objects, at once; under 1 is one
}

// Key is where the vector of a text lies.
func (c *Cached) Key(text string) string {
	return c.Prefix + seal.ID("embedding", c.Model, seal.Bytes([]byte(text)))
}

// Embed is the vectors of texts. That of a text that is too long for the model is nil.
func (c *Cached) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	out, err := c.load(ctx, texts)
	if err != nil {
		return nil, err
	}
	// Of equal texts one is asked for.
	var missing []string
	at := map[string][]int{}
	for i, text := range texts {
		if out[i] == nil {
			if at[text] == nil {
				missing = append(missing, text)
			}
			at[text] = append(at[text], i)
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(max(c.Workers, 1))
	for len(missing) > 0 {
		part := missing[:min(max(c.Batch, 1), len(missing))]
		missing = missing[len(part):]
		g.Go(func() error {
			vectors, err := c.ask(ctx, part)
			for i, v := range vectors {
				for _, place := range at[part[i]] {
					out[place] = v // of this part alone
				}
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return out, nil
}

// ask asks for vectors and stores them. A request that is too long is halved, until a text
// is too long by itself.
func (c *Cached) ask(ctx context.Context, texts []string) ([][]float32, error) {
	if err := ctx.Err(); err != nil { // another request failed, or all is to end
		return nil, err
	}
	vectors, err := c.Server.Embeddings(ctx, texts)
	if llm.Is(err, llm.TooLong) {
		if len(texts) == 1 {
			return [][]float32{nil}, nil
		}
		half := len(texts) / 2
		a, err := c.ask(ctx, texts[:half])
		if err != nil {
			return nil, err
		}
		b, err := c.ask(ctx, texts[half:])
		if err != nil {
			return nil, err
		}
		return append(a, b...), nil
	}
	if err != nil {
		return nil, err
	}
	if len(vectors) != len(texts) {
		return nil, fmt.Errorf("asked for %d vectors, got %d", len(texts), len(vectors))
	}
	// What was answered is paid for, and is kept even when all is to end.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	for i, v := range vectors {
		key := c.Key(texts[i])
		_, err := c.Store.Create(ctx, key, objstore.Bytes(encode(v)))
		if errors.Is(err, objstore.ErrExists) { // another run was first, and what it was told stands
			vectors[i], err = c.read(ctx, key)
		}
		if err != nil {
			return nil, fmt.Errorf("keep an embedding: %w", err)
		}
	}
	return vectors, nil
}

// load reads what is there; nil is not there.
func (c *Cached) load(ctx context.Context, texts []string) ([][]float32, error) {
	out := make([][]float32, len(texts))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(max(c.Workers, 1))
	for i, text := range texts {
		g.Go(func() (err error) {
			out[i], err = c.read(ctx, c.Key(text))
			if errors.Is(err, objstore.ErrNotFound) {
				return nil
			}
			return err
		})
	}
	return out, g.Wait()
}

// maxObject is over any vector: 16 million numbers.
const maxObject = 64 << 20

func (c *Cached) read(ctx context.Context, key string) ([]float32, error) {
	b, _, err := objstore.ReadAll(ctx, c.Store, key, maxObject)
	if err != nil {
		return nil, err
	}
	v, ok := decode(b)
	if !ok {
		return nil, exit.Inputf("%s/%s: is damaged; delete it, and the embedding is asked for again", c.Store, key)
	}
	return v, nil
}

// An object is "OEV1", the numbers as little-endian float32, and a CRC-32C of both.
var (
	magic      = []byte("OEV1")
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

func encode(v []float32) []byte {
	b := bytes.Clone(magic)
	for _, f := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func decode(b []byte) ([]float32, bool) {
	if len(b) < len(magic)+4 || len(b)%4 != 0 || !bytes.HasPrefix(b, magic) {
		return nil, false
	}
	body, sum := b[:len(b)-4], binary.LittleEndian.Uint32(b[len(b)-4:])
	if crc32.Checksum(body, castagnoli) != sum {
		return nil, false
	}
	body = body[len(magic):]
	v := make([]float32, len(body)/4)
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(body[4*i:]))
	}
	return v, true
}
