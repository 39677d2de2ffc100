"""Requirements of a task on queues, independent of the locations of inputs and outputs. The task
brokerage asks it of the queues of a nucleus before jobs are made."""

from __future__ import annotations

from jedi.brokerage.filters.cores import ABOVE_MAX_CORES, FEW_CORES, MANY_CORES
from jedi.brokerage.filters.disk import DIRECT_INPUT, ENDPOINT, STORAGE, WORK_SPACE
from jedi.brokerage.filters.eligibility import (
    EXCLUDED,
    NOT_FOR_PRODUCTION,
    NOT_INCLUDED,
    OTHER_CLOUD,
    PROCESSING,
    TEST_NAME,
)
from jedi.brokerage.filters.input import DISK_IO, IO_INTENSITY
from jedi.brokerage.filters.memory import LITTLE_MEMORY, MUCH_MEMORY
from jedi.brokerage.filters.pilots import PILOTS_EXPECTED
from jedi.brokerage.filters.policy import ZERO_SHARE
from jedi.brokerage.filters.queues import MUCH_TRANSFERRING, OVER_PLEDGE
from jedi.brokerage.filters.software import (
    CONNECTIVITY,
    GPU_ONLY,
    IP_STACK,
    NO_GPU,
    PLATFORM,
    RELEASE,
)
from jedi.brokerage.filters.special import SPECIAL
from jedi.brokerage.filters.status import STANDBY, STATUS
from jedi.brokerage.filters.storage_status import STORAGE_STATUS
from jedi.brokerage.filters.urgency import INACTIVE, OPPORTUNISTIC
from jedi.brokerage.filters.walltime import LITTLE_TIME, MUCH_TIME, SHORT_SLOTS

CAPABLE = (
    NOT_FOR_PRODUCTION,
    OTHER_CLOUD,
    TEST_NAME,
    NOT_INCLUDED,
    EXCLUDED,
    *STATUS,
    STANDBY,
    OPPORTUNISTIC,
    INACTIVE,
    ZERO_SHARE,
    PROCESSING,
    DISK_IO,
    FEW_CORES,
    MANY_CORES,
    ABOVE_MAX_CORES,
    RELEASE,
    PLATFORM,
    NO_GPU,
    GPU_ONLY,
    LITTLE_MEMORY,
    MUCH_MEMORY,
    DIRECT_INPUT,
    WORK_SPACE,
    ENDPOINT,
    STORAGE,
    *STORAGE_STATUS,
    LITTLE_TIME,
    MUCH_TIME,
    SHORT_SLOTS,
    CONNECTIVITY,
    IP_STACK,
    *SPECIAL,
    MUCH_TRANSFERRING,
    OVER_PLEDGE,
    IO_INTENSITY,
    PILOTS_EXPECTED,
)
