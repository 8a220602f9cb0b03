package imports

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"unicode/utf8"

	"orchard/internal/exit"
)

// MaxLine is the longest row of a JSON file, in bytes.
const MaxLine = 256 << 20

// Visit is called for every row in the file's order, with a row or with what is wrong
// with it. Its error ends the reading and is returned.
type Visit func(Row, *Problem) error

// Read reads all rows of a task file, or of the task folders in a folder. A file that cannot be read to its end, or that
// holds no row, is an error marked exit.Input.
func Read(ctx context.Context, path string, visit Visit) error {
	rows := 0
	var beside answers
	if p := Answers(path); p != "" && filepath.Base(path) != answersName {
		var err error
		if beside, err = readAnswers(p); err != nil {
			return err
		}
	}
	counted := func(r Row, p *Problem) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		rows++
		r.File = path
		if p == nil && beside != nil {
			beside.join(&r)
		}
		return visit(r, p)
	}
	read := readText
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		read = readFolders
	} else if columnar(path) != nil {
		read = readColumns
	}
	if err := read(ctx, path, counted); err != nil {
		return err
	}
	if rows == 0 {
		return exit.Inputf("%s: the file is empty: it holds no row", path)
	}
	return nil
}

func readText(_ context.Context, path string, visit Visit) error {
	f, err := openText(path)
	if err != nil {
		return exit.With(exit.Input, err)
	}
	defer f.Close()
	in := &faulty{r: f}
	b := bufio.NewReaderSize(in, 1<<20)
	head, _ := b.Peek(64)
	switch {
	case bytes.HasPrefix(head, []byte("\xef\xbb\xbf")):
		_, _ = b.Discard(3)
		head = head[3:]
	case bytes.HasPrefix(head, []byte("\xff\xfe")), bytes.HasPrefix(head, []byte("\xfe\xff")):
		return exit.Inputf("%s: the file is UTF-16; convert it to UTF-8", path)
	case bytes.HasPrefix(head, []byte("PAR1")):
		return exit.Inputf("%s: this is a Parquet file; its name must end in .parquet", path)
	case bytes.HasPrefix(head, []byte("ARROW1")), bytes.HasPrefix(head, []byte("\xff\xff\xff\xff")):
		return exit.Inputf("%s: this is an Arrow file; its name must end in .arrow", path)
	case bytes.HasPrefix(head, []byte("version https://git-lfs")):
		return exit.Inputf("%s: this is a git LFS pointer, not the file; run git lfs pull", path)
	}
	if bytes.HasPrefix(bytes.TrimLeft(head, " \t\r\n"), []byte("[")) {
		err = readArray(b, path, visit)
	} else {
		err = readLines(b, path, visit)
	}
	if in.err != nil { // what the rows look like does not matter then
		return exit.Inputf("%s: the file cannot be read to its end: %w", path, in.err)
	}
	return err
}

// readLines reads a row per line. Blank lines are skipped.
func readLines(b *bufio.Reader, path string, visit Visit) error {
	for n := 1; ; n++ {
		line, long, err := readLine(b)
		if err != nil && err != io.EOF {
			return err
		}
		place := fmt.Sprintf("%s:%d", path, n)
		if text := bytes.TrimSpace(line); len(text) > 0 || long {
			row, problem := parseRow(text, place)
			switch {
			case long:
				row, problem = Row{}, &Problem{Place: place, Field: "json", What: fmt.Sprintf("the line is longer than %d MiB", MaxLine>>20)}
			case problem != nil && err == io.EOF:
				problem.What += "; the last line has no end, so the file may be cut off"
			}
			if err := visit(row, problem); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
	}
}

// readLine is the next line without its end; long says that it was over MaxLine and
// is left out.
func readLine(b *bufio.Reader) (line []byte, long bool, err error) {
	for {
		part, err := b.ReadSlice('\n')
		if len(line)+len(part) > MaxLine {
			line, long = nil, true
		}
		if !long {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, long, err
		}
	}
}

// readArray reads a file that is one JSON list of rows.
func readArray(b *bufio.Reader, path string, visit Visit) error {
	d := json.NewDecoder(b)
	broken := func(n int, err error) error {
		return exit.Inputf("%s: row %d: the list is not JSON at byte %d: %s", path, n, d.InputOffset(), jsonError(err))
	}
	if _, err := d.Token(); err != nil {
		return broken(1, err)
	}
	n := 1
	for ; d.More(); n++ {
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return broken(n, err)
		}
		var flat bytes.Buffer
		if err := json.Compact(&flat, raw); err != nil {
			return broken(n, err)
		}
		if err := visit(parseRow(flat.Bytes(), fmt.Sprintf("%s: row %d", path, n))); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return broken(n, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return exit.Inputf("%s: something follows the list of rows at byte %d", path, d.InputOffset())
	}
	return nil
}

// parseRow reads the JSON object of a row.
func parseRow(text []byte, place string) (Row, *Problem) {
	bad := func(format string, a ...any) (Row, *Problem) {
		p := problemf("json", format, a...)
		p.Place = place
		return Row{}, p
	}
	if !utf8.Valid(text) {
		row, p := bad("invalid UTF-8 at byte %d of the row; convert the file to UTF-8", invalidAt(text))
		p.Field = invalidColumn(text)
		return row, p
	}
	values := map[string]any{}
	if err := decode(text, &values); err != nil {
		return bad("the row is not a JSON object: %s", jsonError(err))
	}
	if values == nil {
		return bad("the row is null")
	}
	return Row{Place: place, Values: values, Raw: string(text)}, nil
}

// invalidColumn is the column whose value is not UTF-8, or "json".
func invalidColumn(text []byte) string {
	var columns map[string]json.RawMessage
	if json.Unmarshal(text, &columns) == nil {
		for _, name := range slices.Sorted(maps.Keys(columns)) {
			if !utf8.Valid(columns[name]) {
				return name
			}
		}
	}
	return "json"
}

func invalidAt(b []byte) int {
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return len(b)
}

// jsonError is an error of encoding/json in words for whoever wrote the file.
func jsonError(err error) string {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return "it ends in the middle"
	case errors.As(err, &syntax):
		return fmt.Sprintf("%v (byte %d)", syntax, syntax.Offset)
	case errors.As(err, &kind):
		return fmt.Sprintf("found %s", kind.Value)
	}
	return err.Error()
}

// faulty remembers an error of reading, which a JSON decoder would hide.
type faulty struct {
	r   io.Reader
	err error
}

func (f *faulty) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	if err != nil && err != io.EOF {
		f.err = err
	}
	return n, err
}
