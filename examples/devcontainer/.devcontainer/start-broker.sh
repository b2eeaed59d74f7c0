#!/bin/bash
# Starts the broker of this container, unless it runs. Its records in .ottla/data of the project survive a rebuild.
set -euo pipefail
if ottla health --timeout-s 1 >/dev/null 2>&1; then
    exit 0
fi
mkdir -p .ottla
nohup setsid ottla serve --listen 127.0.0.1:9092 --data-dir .ottla/data --topic orders:3 --console --control-port 9095 \
    >.ottla/broker.log 2>&1 </dev/null &
ottla health --wait || { tail -5 .ottla/broker.log; exit 1; }
python3 -c 'import json, os; print("console:", json.load(open(os.environ["OTTLA_READY_FILE"]))["console"])'
