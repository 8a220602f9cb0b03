package imports

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"orchard/internal/exit"
	"orchard/internal/seal"
)

// Endings is the file names that are understood.
var Endings = []string{".jsonl", ".ndjson", ".json", ".jsonl.gz", ".ndjson.gz", ".json.gz", ".jsonl.zst", ".ndjson.zst", ".json.zst", ".parquet", ".arrow", ".arrows", ".feather", ".ipc"}

func understood(name string) bool {
	for _, e := range Endings {
		if strings.HasSuffix(strings.ToLower(name), e) {
			return true
		}
	}
	return false
}

// beside are files that others write beside rows and that hold none.
var beside = []string{"dataset_info.json", "dataset_dict.json", "dataset_infos.json", "state.json", "reference_answer.json"}

// Files is what ins name: files themselves, folders that hold tasks which are folders,
// and all understood files directly in other folders, by name.
func Files(ins []string) ([]string, error) {
	var out []string
	for _, in := range ins {
		path, err := localPath(in)
		if err != nil {
			return nil, err
		}
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, exit.Inputf("--in %s: there is no such file", in)
		case err != nil:
			return nil, exit.Inputf("--in %s: %w", in, reason(err))
		case !info.IsDir() && !understood(path):
			return nil, exit.Inputf("--in %s: the name must end in one of %s", in, strings.Join(Endings, " "))
		case !info.IsDir() && !info.Mode().IsRegular():
			return nil, errPipe(in)
		case !info.IsDir():
			out = append(out, path)
			continue
		}
		tasks, err := taskFolders(path)
		if err != nil {
			return nil, exit.Inputf("--in %s: %w", in, reason(err))
		}
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, exit.Inputf("--in %s: %w", in, reason(err))
		}
		before := len(out)
		for _, e := range entries {
			if !e.IsDir() && understood(e.Name()) && !strings.HasPrefix(e.Name(), ".") && !slices.Contains(beside, e.Name()) {
				out = append(out, filepath.Join(path, e.Name()))
				if info, err := os.Stat(out[len(out)-1]); err == nil && !info.IsDir() && !info.Mode().IsRegular() {
					return nil, errPipe(out[len(out)-1])
				}
			}
		}
		switch {
		case len(tasks) > 0 && tasks[0] == path: // its own files are not rows
			out = append(out[:before], path)
		case len(tasks) > 0 && len(out) > before:
			return nil, exit.Inputf("--in %s: the folder has both tasks that are folders (%s) and files of rows (%s); name the ones that you want",
				in, filepath.Base(tasks[0]), filepath.Base(out[before]))
		case len(tasks) > 0:
			out = append(out, path)
		case len(out) == before:
			return nil, exit.Inputf("--in %s: the folder has no file ending in one of %s, and no folder with a %s", in, strings.Join(Endings, " "), strings.Join(taskFiles, " or "))
		}
	}
	return out, nil
}

// errPipe refuses what is neither file nor folder: files are read twice, and opening a
// pipe may wait forever.
func errPipe(in string) error {
	return exit.Inputf("--in %s: is a pipe or a device; write what it gives to a file first", in)
}

func localPath(in string) (string, error) {
	scheme, _, ok := strings.Cut(in, "://")
	if !ok {
		return in, nil
	}
	u, err := url.Parse(in)
	if err != nil || scheme != "file" || u.Host != "" {
		return "", exit.Configf("--in %s: only files on this machine and objects in s3://bucket/… can be imported; fetch it first", in)
	}
	return u.Path, nil
}

// SHA256 is the hex sha256 of a file's bytes, or of the tasks in a folder.
func SHA256(path string) (string, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return folderSHA256(path)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum, err := seal.Reader(f)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	return sum, nil
}

// openText opens a file that may be compressed, by its name.
func openText(path string) (io.ReadCloser, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	switch strings.ToLower(filepath.Ext(path)) {
	case ".gz":
		z, err := gzip.NewReader(f)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s: is no gzip file: %w", path, err), f.Close())
		}
		return both{z, z, f}, nil
	case ".zst":
		z, err := zstd.NewReader(f)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s: is no zstd file: %w", path, err), f.Close())
		}
		unpacked := z.IOReadCloser() // whose Close ends its goroutines, wherever it is
		return both{unpacked, unpacked, f}, nil
	}
	return f, nil
}

// both reads from a decompressor, and closes it and the file below.
type both struct {
	io.Reader
	unpacked io.Closer
	file     io.Closer
}

func (b both) Close() error { return errors.Join(b.unpacked.Close(), b.file.Close()) }
