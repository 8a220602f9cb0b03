package imports

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"orchard/internal/exit"
	"orchard/internal/seal"
)

// The bounds of a task's folder. A file beyond them belongs into an image.
const (
	maxTaskFile   = 32 << 20
	maxTaskFolder = 128 << 20
	maxTaskFiles  = 5000
)

// taskFiles are the files that make a folder a task.
var taskFiles = []string{"task.toml", "task.yaml"}

// taskFolders is the folders of tasks in root: root itself, or those up to three levels
// below it, by path. Other folders are not looked into further once they are a task.
func taskFolders(root string) ([]string, error) {
	var out []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if path != root && strings.HasPrefix(d.Name(), ".") {
			return filepath.SkipDir
		}
		for _, name := range taskFiles {
			if info, err := os.Lstat(filepath.Join(path, name)); err == nil && info.Mode().IsRegular() {
				out = append(out, path)
				return filepath.SkipDir
			}
		}
		if rel, _ := filepath.Rel(root, path); strings.Count(rel, string(filepath.Separator)) >= 2 {
			return filepath.SkipDir
		}
		return nil
	})
	return out, err
}

// folderFile is a file of a task's folder in the raw row: as text, or in base64.
type folderFile struct {
	Path       string  `json:"path"`
	Executable bool    `json:"executable,omitempty"`
	Text       *string `json:"text,omitempty"`
	Base64     *string `json:"base64,omitempty"`
}

// readFolders reads a row per task folder.
func readFolders(ctx context.Context, root string, visit Visit) error {
	dirs, err := taskFolders(root)
	if err != nil {
		return exit.Inputf("--in %s: %w", root, reason(err))
	}
	for _, dir := range dirs {
		if err := ctx.Err(); err != nil {
			return err
		}
		row, problem := readFolder(dir)
		if problem != nil {
			problem.Place = dir
		}
		if err := visit(row, problem); err != nil {
			return err
		}
	}
	return nil
}

func readFolder(dir string) (Row, *Problem) {
	files, problem := folderFiles(dir)
	if problem != nil {
		return Row{}, problem
	}
	raw, err := json.Marshal(map[string]any{"name": filepath.Base(dir), "files": files})
	if err != nil {
		return Row{}, problemf("files", "%v", err)
	}
	return parseRow(raw, dir)
}

// folderFiles is all files of a folder, by path. Links are refused: they may point at
// whatever else is on the machine.
func folderFiles(dir string) ([]folderFile, *Problem) {
	out, total := []folderFile{}, int64(0)
	var bad *Problem
	stop := errors.New("stop")
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, path)
		fail := func(format string, a ...any) error {
			bad = problemf(filepath.ToSlash(rel), format, a...)
			return stop
		}
		switch {
		case err != nil:
			return fail("%v", reason(err))
		case d.IsDir() && d.Name() == ".git":
			return filepath.SkipDir
		case d.IsDir():
			return nil
		case !d.Type().IsRegular():
			return fail("is a link or a special file; a task holds files and folders only")
		case !utf8.ValidString(rel):
			return fail("has a name that is not UTF-8")
		}
		info, err := d.Info()
		if err != nil {
			return fail("%v", reason(err))
		}
		if total += info.Size(); info.Size() > maxTaskFile || total > maxTaskFolder || len(out) == maxTaskFiles {
			return fail("a task may have %d files of %d MiB, and %d MiB in all", maxTaskFiles, maxTaskFile>>20, maxTaskFolder>>20)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return fail("%v", reason(err))
		}
		f := folderFile{Path: filepath.ToSlash(rel), Executable: info.Mode()&0o111 != 0}
		if utf8.Valid(content) {
			text := string(content)
			f.Text = &text
		} else {
			b := base64.StdEncoding.EncodeToString(content)
			f.Base64 = &b
		}
		out = append(out, f)
		return nil
	})
	if err != nil && bad == nil {
		bad = problemf("files", "%v", err)
	}
	return out, bad
}

// folderSHA256 names the task folders below root by their content.
func folderSHA256(root string) (string, error) {
	dirs, err := taskFolders(root)
	if err != nil {
		return "", err
	}
	var parts []string
	for _, dir := range dirs {
		files, problem := folderFiles(dir)
		if problem != nil {
			parts = append(parts, filepath.Base(dir), problem.What)
			continue
		}
		for _, f := range files {
			parts = append(parts, filepath.Base(dir), f.Path, fmt.Sprint(f.Executable), seal.Bytes([]byte(f.content())))
		}
	}
	return seal.ID(parts...), nil
}

func (f folderFile) content() string {
	if f.Text != nil {
		return *f.Text
	}
	if f.Base64 != nil {
		if b, err := base64.StdEncoding.DecodeString(*f.Base64); err == nil {
			return string(b)
		}
	}
	return ""
}
