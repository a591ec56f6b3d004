//go:build unix && !aix

package vfs_test

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs"
)

func TestWhatIsNotARegularFileIsRefusedAtOnce(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(dir, "target")
	put(t, vfs.OS, target, "x")
	put(t, vfs.OS, filepath.Join(dir, "secret"), "x")
	tests := []struct {
		name string
		make func(name string) error
	}{
		{"a link to a file", func(name string) error { return os.Symlink(target, name) }},
		{"a link to nothing", func(name string) error { return os.Symlink(filepath.Join(dir, "nothing"), name) }},
		{"a pipe", func(name string) error { return unix.Mkfifo(name, 0o600) }},
		{"a directory", func(name string) error { return os.Mkdir(name, 0o700) }},
		{"a link to a device", func(name string) error { return os.Symlink(os.DevNull, name) }},
		{"a socket", func(name string) error {
			fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			return unix.Bind(fd, &unix.SockaddrUnix{Name: name})
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Chdir(t.TempDir()) // the name of a socket must be short
			const name = "x"
			must(t, test.make(name))
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, err := vfs.OS.Open(name)
				wantErr(t, err, vfs.ErrNotRegular)
				if _, err = vfs.OS.Lock(name); err == nil {
					t.Error("it was locked")
				}
				_, err = vfs.OS.LockShared(name)
				wantErr(t, err, vfs.ErrNotRegular)
				_, err = vfs.OS.Create(name)
				wantErr(t, err, fs.ErrExist)
				wantErr(t, vfs.OS.Link(name, name+"2"), vfs.ErrNotRegular)
				_, err = vfs.OS.List(name)
				for what, err := range map[string]error{"List": err, "MkdirAll": vfs.MkdirAll(vfs.OS, name)} {
					if directory := test.name == "a directory"; (err == nil) != directory {
						t.Errorf("%s: %v", what, err)
					}
				}
			}()
			select {
			case <-done:
			case <-time.After(testkit.Patience):
				t.Fatal("it hangs")
			}
			info, err := vfs.OS.Stat(name)
			must(t, err)
			if info.Mode().IsRegular() {
				t.Errorf("Stat follows: %v", info.Mode())
			}
			if got := list(t, vfs.OS, "."); got != name {
				t.Errorf("made files: %q", got)
			}
			must(t, vfs.OS.Remove(name))
		})
	}
	if got := get(t, vfs.OS, target); got != "x" {
		t.Errorf("what was linked to holds %q, want x", got)
	}
	if _, err := os.Lstat(filepath.Join(dir, "nothing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a lock or file was made through a link: %v", err)
	}
}

func TestADirectoryMayBeALink(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "real"), 0o700))
	link := filepath.Join(dir, "link")
	must(t, os.Symlink("real", link))
	must(t, vfs.MkdirAll(vfs.OS, link))
	must(t, vfs.WriteFileAtomic(vfs.OS, link, "tmp", "a", []byte("x")))
	lock, err := vfs.OS.Lock(filepath.Join(link, "LOCK"))
	must(t, err)
	_, err = vfs.OS.Lock(filepath.Join(dir, "real", "LOCK")) // the same file by another path
	wantErr(t, err, vfs.ErrLocked)
	must(t, lock.Close())
	if got, want := list(t, vfs.OS, link), "LOCK a"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestFilesAreForTheirOwnerOnly(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "a")
	put(t, vfs.OS, name, "x")
	must(t, vfs.OS.Mkdir(filepath.Join(dir, "sub")))
	lock, err := vfs.OS.Lock(filepath.Join(dir, "LOCK"))
	must(t, err)
	must(t, lock.Close())
	for name, want := range map[string]fs.FileMode{"a": 0o600, "sub": fs.ModeDir | 0o700, "LOCK": 0o600} {
		info, err := vfs.OS.Stat(filepath.Join(dir, name))
		must(t, err)
		if info.Mode() != want {
			t.Errorf("%s has mode %v, want %v", name, info.Mode(), want)
		}
	}
}

// TestADirectoryThatGivesFilesToItsGroupSaysWhatTheGroupMay creates files, locks and directories, also where a
// directory is held.
func TestADirectoryThatGivesFilesToItsGroupSaysWhatTheGroupMay(t *testing.T) {
	for _, c := range []struct {
		name            string
		dir             fs.FileMode
		umask           int
		file, directory fs.FileMode
	}{
		{"read and write", 0o770 | fs.ModeSetgid, 0o007, 0o660, 0o770},
		{"read", 0o750 | fs.ModeSetgid, 0o007, 0o640, 0o750},
		{"all may do all, so the group may", 0o777 | fs.ModeSetgid, 0, 0o660, 0o770},
		{"nothing", 0o707 | fs.ModeSetgid, 0, 0o600, 0o700},
		{"the umask takes away", 0o770 | fs.ModeSetgid, 0o027, 0o640, 0o750},
		{"files keep the group of their owner", 0o777, 0, 0o600, 0o700},
	} {
		t.Run(c.name, func(t *testing.T) {
			old := unix.Umask(c.umask)
			defer unix.Umask(old)
			dir := t.TempDir()
			must(t, os.Chmod(dir, c.dir))
			held, err := vfs.Hold(vfs.OS, dir)
			must(t, err)
			defer held.Close()
			for name, fsys := range map[string]vfs.FS{"named": vfs.OS, "held": held} {
				at := filepath.Join(dir, name)
				put(t, fsys, at+"-file", "x")
				lock, err := fsys.Lock(at + "-lock")
				must(t, errors.Join(err, fsys.Mkdir(at)))
				lock.Close()
				for made, want := range map[string]fs.FileMode{
					at + "-file": c.file, at + "-lock": c.file, at: c.directory,
				} {
					if info, err := os.Stat(made); err != nil || info.Mode().Perm() != want {
						t.Errorf("%s: %v, %v, want %v", filepath.Base(made), info.Mode(), err, want)
					}
				}
			}
		})
	}
}

func TestAnUnreadableFileIsNotAnAbsentOne(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may read all")
	}
	name := filepath.Join(t.TempDir(), "a")
	put(t, vfs.OS, name, "x")
	must(t, os.Chmod(name, 0))
	_, err := vfs.OS.Open(name)
	wantErr(t, err, fs.ErrPermission)
}

func TestALinkToAnotherFileSystemIsUnsupported(t *testing.T) {
	here := t.TempDir()
	there, err := os.MkdirTemp("/dev/shm", "vfs") //nolint:usetesting // it must be on another file system
	if err != nil {
		t.Skip(err)
	}
	defer os.RemoveAll(there)
	var a, b unix.Stat_t
	must(t, errors.Join(unix.Stat(here, &a), unix.Stat(there, &b)))
	if a.Dev == b.Dev {
		t.Skip("both directories are on one file system")
	}
	put(t, vfs.OS, filepath.Join(here, "a"), "x")
	err = vfs.OS.Link(filepath.Join(here, "a"), filepath.Join(there, "a"))
	wantErr(t, err, errors.ErrUnsupported)
	wantErr(t, err, unix.EXDEV)
}

func TestReadAtAndWriteAllocateNothing(t *testing.T) {
	f, err := vfs.OS.Create(filepath.Join(t.TempDir(), "a"))
	must(t, err)
	defer f.Close()
	buf := make([]byte, 4096)
	if n := testing.AllocsPerRun(100, func() { _, err = f.Write(buf) }); n != 0 || err != nil {
		t.Errorf("Write allocates %v times, %v", n, err)
	}
	if err = reserve(f, 1<<20); !errors.Is(err, errors.ErrUnsupported) {
		must(t, err)
	}
	for _, size := range []int{100, 100, 4096} {
		if n := testing.AllocsPerRun(100, func() { _, err = f.Write(buf[:size]) }); n != 0 || err != nil {
			t.Errorf("Write of %d bytes, perhaps into reserved space, allocates %v times, %v", size, n, err)
		}
	}
	if n := testing.AllocsPerRun(100, func() { _, err = f.ReadAt(buf, 512) }); n != 0 || err != nil {
		t.Errorf("ReadAt allocates %v times, %v", n, err)
	}
}

func TestASharedLockNeedsNoPermissionToWrite(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "LOCK")
	put(t, vfs.OS, name, "")
	must(t, errors.Join(os.Chmod(name, 0o400), os.Chmod(dir, 0o500)))
	defer os.Chmod(dir, 0o700) //nolint:errcheck // for the removal of the directory
	lock, err := vfs.OS.LockShared(name)
	must(t, err)
	must(t, lock.Close())
}

// lockEnv is the environment variable with the task of the test's other process: how to lock, a space, and the file's
// name.
const lockEnv = "VFS_TEST_LOCK"

func TestMain(m *testing.M) {
	if what := os.Getenv(lockEnv); what != "" {
		os.Exit(lockInChild(what))
	}
	os.Exit(m.Run())
}

// lockInChild holds a lock until the process is killed; "turns" takes and releases one again and again.
func lockInChild(what string) int {
	how, name, _ := strings.Cut(what, " ")
	var err error
	switch how {
	case "exclusive":
		_, err = vfs.OS.Lock(name)
	case "shared":
		_, err = vfs.OS.LockShared(name)
	case "turns":
		err = takeTurns(name, true, time.Now().Add(turnsTime))
	}
	if err != nil {
		os.Stdout.WriteString(err.Error() + "\n") //nolint:errcheck // read by the parent
		return 1
	}
	if how != "turns" {
		os.Stdout.WriteString("locked\n") //nolint:errcheck // likewise
		io.Copy(io.Discard, os.Stdin)     //nolint:errcheck // until killed
	}
	return 0
}

// lockElsewhere starts another process that holds a lock until it is killed.
func lockElsewhere(t *testing.T, how, name string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), lockEnv+"="+how+" "+name)
	_, err := cmd.StdinPipe() // which stays open
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	must(t, err)
	if line != "locked\n" {
		t.Fatalf("the other process: %s", line)
	}
	return cmd
}

// refusedElsewhere checks that another process cannot take a lock.
func refusedElsewhere(t *testing.T, how, name string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), lockEnv+"="+how+" "+name)
	if got, err := cmd.Output(); err == nil || !strings.Contains(string(got), vfs.ErrLocked.Error()) {
		t.Errorf("another process: %s, %v, want no %s lock", got, err, how)
	}
}

func kill(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	must(t, cmd.Process.Kill())
	if err := cmd.Wait(); err == nil {
		t.Error("the other process ended by itself")
	}
}

func TestI31ALockHoldsBetweenProcessesUntilDeath(t *testing.T) {
	name := filepath.Join(t.TempDir(), "LOCK")
	other := lockElsewhere(t, "exclusive", name)
	_, err := vfs.OS.Lock(name)
	wantErr(t, err, vfs.ErrLocked)
	_, err = vfs.OS.LockShared(name)
	wantErr(t, err, vfs.ErrLocked)
	must(t, other.Process.Signal(unix.SIGSTOP))
	_, err = vfs.OS.Lock(name)
	wantErr(t, err, vfs.ErrLocked)
	kill(t, other)
	lock, err := vfs.OS.Lock(name)
	must(t, err)
	refusedElsewhere(t, "exclusive", name)
	refusedElsewhere(t, "shared", name)
	must(t, lock.Close())
}

func TestI31ASharedLockIsSharedBetweenProcesses(t *testing.T) {
	name := filepath.Join(t.TempDir(), "LOCK")
	put(t, vfs.OS, name, "")
	other := lockElsewhere(t, "shared", name)
	first, err := vfs.OS.LockShared(name)
	must(t, err)
	second, err := vfs.OS.LockShared(name)
	must(t, err)
	must(t, first.Close()) // must not release the second
	refusedElsewhere(t, "exclusive", name)
	kill(t, other)
	refusedElsewhere(t, "exclusive", name)
	must(t, second.Close())

	other = lockElsewhere(t, "shared", name)
	_, err = vfs.OS.Lock(name)
	wantErr(t, err, vfs.ErrLocked)
	kill(t, other)
	lock, err := vfs.OS.Lock(name)
	must(t, err)
	must(t, lock.Close())
}

const turnsTime = 500 * time.Millisecond

// takeTurns locks again and again until the given time, and fails if another process holds the lock meanwhile. If
// remove is set, it removes the file before each release.
func takeTurns(name string, remove bool, until time.Time) error {
	for time.Now().Before(until) {
		lock, err := vfs.OS.Lock(name)
		if errors.Is(err, vfs.ErrLocked) {
			continue
		}
		if err != nil {
			return err
		}
		err = os.Mkdir(name+".alone", 0o700)
		if err == nil {
			err = os.Remove(name + ".alone")
		}
		if remove {
			err = errors.Join(err, os.Remove(name))
		}
		if err = errors.Join(err, lock.Close()); err != nil {
			return err
		}
	}
	return nil
}

// TestALockOfARemovedFileDoesNotCount locks a file in two processes. One removes the file while it holds the lock.
func TestALockOfARemovedFileDoesNotCount(t *testing.T) {
	name := filepath.Join(t.TempDir(), "LOCK")
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), lockEnv+"=turns "+name)
	var out strings.Builder
	cmd.Stdout = &out
	must(t, cmd.Start())
	if err := takeTurns(name, false, time.Now().Add(turnsTime)); err != nil {
		t.Errorf("this process: %v", err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the other process: %v: %s", err, out.String())
	}
}
