package inside

// Step is the step of palyra-init that failed: one of the codes below, or free text, which
// palyrad only prints.
type Step string

// The steps whose failures palyrad distinguishes.
const (
	StepExec       Step = "exec"
	StepExecutable Step = "executable"
	StepOperands   Step = "operands"
	StepSecrets    Step = "secrets"
	StepWorkspace  Step = "workspace"
	StepCwd        Step = "cwd"
	StepOverlay    Step = "overlay"
	StepPrivate    Step = "private"
	StepNetwork    Step = "network"
)

// String describes the step for people.
func (s Step) String() string {
	switch s {
	case StepExec:
		return "starting the program"
	case StepExecutable:
		return "checking the program"
	case StepOperands:
		return "writing the files that the call names to the copy of the workspace"
	case StepSecrets:
		return "writing the secrets of the call to memory"
	case StepWorkspace:
		return "checking the workspace"
	case StepCwd:
		return "entering the working directory"
	case StepOverlay:
		return "mounting the copy of the workspace"
	case StepPrivate:
		return "mounting the run's terminals and toolchains"
	case StepNetwork:
		return "opening the connections to the allowed hosts"
	}
	return string(s)
}
