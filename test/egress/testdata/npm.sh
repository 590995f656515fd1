# Looks at a package of the registry $2 over the family $1, installs and uses it.
cd /tmp
export NODE_OPTIONS="--require /workspace/family.cjs" FAMILY=$1
export npm_config_registry=$2 npm_config_audit=false npm_config_fund=false npm_config_update_notifier=false npm_config_fetch_retries=0
npm view tiny version && npm install --silent tiny && node -p "require('tiny')"
