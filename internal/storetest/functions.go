package storetest

// A Function is the name of a function of this module, as stacks end it. Tests stop a store inside it, or wait until it
// runs. A test checks that all of them exist.
type Function string

// Functions of the API.
const (
	DBGet      Function = "bloomkv.(*DB).Get"
	DBSnapshot Function = "bloomkv.(*DB).Snapshot"
	CopyTo     Function = "bloomkv.(*DB).copyTo" // in a checkpoint
)

// Functions of lookups.
const (
	Compare   Function = "internal/read.(*Reader).Compare" // of a conditional write
	Search    Function = "internal/read.(*lookup).search"
	HoldState Function = "internal/read.(*Reader).hold" // of long reads
)

// Functions of writes.
const (
	commitOps    Function = "internal/commit.(*Writer).commit"
	lead         Function = "internal/commit.(*Writer).lead"
	waitToFreeze Function = "internal/commit.(*Writer).waitToFreeze"
	SyncLog      Function = "internal/commit.(*Writer).syncLog"
	NameLog      Function = "internal/commit.(*logFile).syncHead"
	SyncOldLog   Function = "internal/commit.(*logFile).retire.func1"
)

// Functions of background work, and of changes of the tree.
const (
	CompactLoop   Function = "internal/scheduler.(*Scheduler).compactLoop"
	FlushLoop     Function = "internal/scheduler.(*Scheduler).flushLoop"
	Install       Function = "internal/scheduler.(*Scheduler).install"
	InstallIngest Function = "internal/scheduler.(*Scheduler).Ingest"
	PauseCompact  Function = "internal/scheduler.(*Scheduler).pause"
	WarmUp        Function = "internal/budget.(*Share).WarmUp"
	WaitForCalls  Function = "internal/tree.(*calls).WaitForCalls"
	EpochWait     Function = "internal/epoch.(*Domain).Wait" // until readers have left
	Remove        Function = "internal/tree.(*Tree).Remove"
)
