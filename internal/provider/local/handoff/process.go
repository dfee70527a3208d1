package handoff

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
)

// BootID is the kernel's random id of the current boot.
var BootID = sync.OnceValues(func() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b)), err
})

// Identify reads the identity of a process from the kernel. The error matches
// os.ErrNotExist when there is no such process.
func Identify(pid int) (Process, error) {
	boot, err := BootID()
	if err != nil {
		return Process{}, err
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Process{}, err
	}
	start, err := parseStartTime(stat)
	if err != nil {
		return Process{}, fmt.Errorf("/proc/%d/stat: %w", pid, err)
	}
	return Process{PID: pid, StartTime: start, BootID: boot}, nil
}

// parseStartTime takes field 22 of a stat line. Field 2 is the program's name
// in parentheses and may itself hold blanks and parentheses.
func parseStartTime(stat []byte) (uint64, error) {
	_, after, ok := bytes.Cut(stat[max(bytes.LastIndexByte(stat, ')'), 0):], []byte(") "))
	fields := bytes.Fields(after)
	if !ok || len(fields) < 20 {
		return 0, fmt.Errorf("line of %d bytes has no start time", len(stat))
	}
	return strconv.ParseUint(string(fields[19]), 10, 64)
}
