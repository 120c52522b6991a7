"""Methods: one paper method a file, each a short composition of slots."""

from sordino.methods.base import Bulletin, Method, MethodOptions
from sordino.methods.catalogue import METHODS, method_named, name_of
from sordino.methods.ce_fedavg import CeFedAvg
from sordino.methods.dp_fedavg import DpFedAvg
from sordino.methods.fedavg import FedAvg
from sordino.methods.fedfair import FedFair
from sordino.methods.fedfdp import FedFdp
from sordino.methods.gdpfed import GdpFed
from sordino.methods.gdpfed_op import GdpFedOp
from sordino.methods.gdpfed_plus import GdpFedPlus
from sordino.methods.house import House
from sordino.methods.house_record import HouseRecord
from sordino.methods.idp_fedavg import IdpFedAvg
from sordino.methods.keys import check_keys
from sordino.methods.model_clip_fedavg import ModelClipFedAvg
from sordino.methods.pfa import Pfa
from sordino.methods.record_dp_fedavg import RecordDpFedAvg
from sordino.methods.recorded import RecordedNorm
from sordino.methods.time_adaptive import TimeAdaptive

__all__ = [
    "METHODS",
    "Bulletin",
    "CeFedAvg",
    "DpFedAvg",
    "FedAvg",
    "FedFair",
    "FedFdp",
    "GdpFed",
    "GdpFedOp",
    "GdpFedPlus",
    "House",
    "HouseRecord",
    "IdpFedAvg",
    "Method",
    "MethodOptions",
    "ModelClipFedAvg",
    "Pfa",
    "RecordDpFedAvg",
    "RecordedNorm",
    "TimeAdaptive",
    "check_keys",
    "method_named",
    "name_of",
]
