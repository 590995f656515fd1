# Registers palyrad as a scheduled task that starts when you log on, and starts it. It needs no
# administrator. register.ps1 -Remove ends the task and removes it.
#
#   powershell -ExecutionPolicy Bypass -File lib\windows\register.ps1
param([switch]$Remove)
Set-StrictMode -Version Latest
$ErrorActionPreference = 'Stop'

$task = 'palyrad'
if ($Remove) {
    Stop-ScheduledTask -TaskName $task
    Unregister-ScheduledTask -TaskName $task -Confirm:$false
    Write-Output "The task $task is removed. Configuration and state of palyrad stay."
    exit 0
}

$programs = (Resolve-Path (Join-Path $PSScriptRoot '..\..\bin')).Path
if (-not (Test-Path (Join-Path $programs 'palyrad.exe') -PathType Leaf)) {
    throw "$programs has no palyrad.exe. Run register.ps1 in the unpacked archive."
}
$user = [System.Security.Principal.WindowsIdentity]::GetCurrent().Name
$definition = Get-Content -Raw -Path (Join-Path $PSScriptRoot 'palyrad.xml')
foreach ($pair in @(@('@USER@', $user), @('@BINDIR@', $programs))) {
    $definition = $definition.Replace($pair[0], [System.Security.SecurityElement]::Escape($pair[1]))
}
Register-ScheduledTask -TaskName $task -Xml $definition -Force | Out-Null
Start-ScheduledTask -TaskName $task
Write-Output "palyrad runs as the task $task of $user. Next: $(Join-Path $programs 'palyra.exe') status"
