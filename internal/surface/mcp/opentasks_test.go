package mcp

import (
	"testing"
	"testing/synctest"
	"time"

	"palyra/internal/core/reason"
)

// TestTaskIsForgotten: a task is forgotten an hour after its end, whether it ended before or
// after its client learned of it. A task without a call is refused, as no client could poll it.
func TestTaskIsForgotten(t *testing.T) {
	t.Parallel()
	for name, steps := range map[string][]func(*tasks, *task) error{
		"ended first": {func(_ *tasks, t *task) error { t.status = taskCompleted; return nil }, (*tasks).keep},
		"kept first": {(*tasks).keep, func(ts *tasks, t *task) error {
			t.status = taskCompleted
			ts.forget(t)
			return nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ts, one := newTasks(nil), &task{id: "1", owner: "o", status: taskWorking}
				for _, step := range steps {
					if err := step(ts, one); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(taskKept - time.Second)
				if _, ok := ts.open.find("o", "1"); !ok {
					t.Error("it was forgotten early")
				}
				time.Sleep(2 * time.Second)
				synctest.Wait()
				if _, ok := ts.open.find("o", "1"); ok {
					t.Error("it was not forgotten")
				}
			})
		})
	}
	if err := newTasks(nil).keep(&task{status: taskWorking}); reason.Of(err) != reason.TimedOut {
		t.Errorf("a task without a call: %v", err)
	}
}
